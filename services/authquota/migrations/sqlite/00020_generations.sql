-- Marks of the database, and the epoch of each account in it.

-- Contract: nothing was released, so no version needs the removed tables.

-- +goose Up
-- Periods of this database between decisions of an operator after it was set back. Those that were given up began at 0.
CREATE TABLE generations (
  id       text   PRIMARY KEY,
  began_at bigint NOT NULL, -- microseconds since 1970 UTC
  begun_by text   NOT NULL,
  alive_at bigint NOT NULL DEFAULT 0 -- a process was running then
);
INSERT INTO generations (id, began_at, begun_by) VALUES (lower(hex(randomblob(8))), 1, '');

-- Marks that others remember and this database lacks. While there are any, it is set back.
CREATE TABLE claims (
  mark text PRIMARY KEY
);

-- About the time of the latest change of an account, in microseconds since 1970 UTC. It only grows.
ALTER TABLE accounts ADD COLUMN epoch bigint NOT NULL DEFAULT 0;

DROP TABLE epoch_raises;
DROP TABLE set_backs;
DROP TABLE feed_copies;
DROP TABLE changes;

-- One row for each change of accounts, in the order of commits. After a restore sequences are used again; ids are not.
CREATE TABLE changes (
  sequence bigint PRIMARY KEY,
  id       text   NOT NULL,
  accounts text   NOT NULL -- comma-separated ids
);

-- +goose Down
SELECT 1;
