-- Requests for test keys, which are approved automatically. An account gets one such key, ever; a request that was withdrawn gave none.

-- +goose Up
ALTER TABLE key_requests ADD COLUMN test boolean NOT NULL DEFAULT false;
CREATE UNIQUE INDEX key_requests_test ON key_requests (account_id) WHERE test AND state <> 'withdrawn';

-- +goose Down
DROP INDEX key_requests_test;
ALTER TABLE key_requests DROP COLUMN test;
