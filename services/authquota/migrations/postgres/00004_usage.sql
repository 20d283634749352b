-- Instants are microseconds since 1970 UTC.

-- +goose Up
-- How the calls of each key ended, by UTC day: statistics for whoever holds the key. They lie together by account, which is how
-- they are read, and follow their key when accounts are merged. No reference to accounts: checking it would wait for a merge that
-- waits for the key.
CREATE TABLE usage_keys (
  account_id text   NOT NULL,
  day        text   NOT NULL,
  key_id     text   NOT NULL REFERENCES api_keys (id),
  outcome    text   NOT NULL,
  calls      bigint NOT NULL CHECK (calls > 0),
  PRIMARY KEY (account_id, day, key_id, outcome)
);
CREATE INDEX usage_keys_by_day ON usage_keys (day);

-- What the keys of an account come to, written together with usage_keys: an account may have had thousands of keys.
CREATE TABLE usage_outcomes (
  account_id text   NOT NULL,
  day        text   NOT NULL,
  outcome    text   NOT NULL,
  calls      bigint NOT NULL CHECK (calls > 0),
  PRIMARY KEY (account_id, day, outcome)
);
CREATE INDEX usage_outcomes_by_day ON usage_outcomes (day);

-- The batches of tallies that were added up lately, so that one that is sent twice counts once.
CREATE TABLE tally_batches (
  id         text   PRIMARY KEY,
  counted_at bigint NOT NULL
);
CREATE INDEX tally_batches_by_time ON tally_batches (counted_at);

-- +goose Down
DROP TABLE tally_batches;
DROP TABLE usage_outcomes;
DROP TABLE usage_keys;
