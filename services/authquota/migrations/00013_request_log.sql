-- The latest requests of each key, for its holder. They follow their key when accounts are merged. No reference to keys: a batch may
-- name keys that this database does not have, and no row lives longer than a week.

-- +goose Up
CREATE TABLE request_log (
  request_id text   PRIMARY KEY,
  key_id     text   NOT NULL,
  at         bigint NOT NULL,
  route      text   NOT NULL,
  params     text   NOT NULL, -- as api.LoggedParams: no free text
  status     int    NOT NULL,
  code       text   NOT NULL,
  duration   bigint NOT NULL  -- microseconds
);
CREATE INDEX request_log_by_key ON request_log (key_id, at);
CREATE INDEX request_log_by_time ON request_log (at);

-- +goose Down
DROP TABLE request_log;
