-- Names, succession, requests, and accounts that were taken over.

-- +goose Up
ALTER TABLE api_keys ADD COLUMN name text NOT NULL DEFAULT '';
ALTER TABLE api_keys ADD COLUMN replaced_at bigint; -- when it got its successor; expires_at is the end of its grace then
ALTER TABLE api_keys ADD COLUMN successor_id text REFERENCES api_keys (id);
ALTER TABLE api_keys ADD COLUMN last_used_at bigint;

-- An account whose keys another one has taken over. It has no keys, and never gets one again.
ALTER TABLE accounts ADD COLUMN merged_into text REFERENCES accounts (id);

CREATE TABLE key_requests (
  id         text   PRIMARY KEY,
  account_id text   NOT NULL REFERENCES accounts (id),
  name       text   NOT NULL,
  use_case   text   NOT NULL,
  state      text   NOT NULL CHECK (state IN ('asked', 'approved', 'declined', 'collected', 'withdrawn')),
  reason     text   NOT NULL DEFAULT '',
  asked_at   bigint NOT NULL,
  decided_at bigint,
  decided_by text   NOT NULL DEFAULT '',
  key_id     text   UNIQUE REFERENCES api_keys (id) -- once it was collected
);
CREATE INDEX key_requests_by_account ON key_requests (account_id);
CREATE INDEX key_requests_by_state ON key_requests (state);

-- Calls of a day that count for another account since a merge. A row stays after the counter store was told: a day that the counter
-- store has lost is counted anew from the ledger and these rows.
CREATE TABLE usage_moves (
  day          text   NOT NULL,
  from_account text   NOT NULL REFERENCES accounts (id),
  to_account   text   NOT NULL REFERENCES accounts (id),
  moved_at     bigint, -- when the counter store was told
  PRIMARY KEY (day, from_account)
);

-- +goose Down
DROP TABLE usage_moves;
DROP TABLE key_requests;
ALTER TABLE accounts DROP COLUMN merged_into;
ALTER TABLE api_keys DROP COLUMN last_used_at;
ALTER TABLE api_keys DROP COLUMN successor_id;
ALTER TABLE api_keys DROP COLUMN replaced_at;
ALTER TABLE api_keys DROP COLUMN name;
