-- Instants are microseconds since 1970 UTC.

-- +goose Up
-- How the calls of each key ended, by UTC day: statistics for whoever holds the key. The account is not here, because a key's
-- usage follows the key when accounts are merged. Rows come in by key and go by day.
CREATE TABLE usage_keys (
  key_id  text   NOT NULL REFERENCES api_keys (id),
  day     text   NOT NULL,
  outcome text   NOT NULL,
  calls   bigint NOT NULL CHECK (calls > 0),
  PRIMARY KEY (key_id, day, outcome)
) WITHOUT ROWID;
CREATE INDEX usage_keys_by_day ON usage_keys (day);

-- The batches of tallies that were added up lately, so that one that is sent twice counts once.
CREATE TABLE tally_batches (
  id         text   PRIMARY KEY,
  counted_at bigint NOT NULL
);
CREATE INDEX tally_batches_by_time ON tally_batches (counted_at);

-- +goose Down
DROP TABLE tally_batches;
DROP TABLE usage_keys;
