-- A test key can be replaced: an account has at most one open request for one.

-- +goose Up
DROP INDEX key_requests_test;
CREATE UNIQUE INDEX key_requests_test ON key_requests (account_id) WHERE test AND state IN ('pending', 'approved');

-- +goose Down
DROP INDEX key_requests_test;
-- Not unique: an account may have had several test keys. The release before looks for one under the account's lock.
CREATE INDEX key_requests_test ON key_requests (account_id) WHERE test AND state <> 'withdrawn';
