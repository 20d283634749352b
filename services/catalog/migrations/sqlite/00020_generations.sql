-- Contract: nothing was released, so no version needs the removed tables.

-- +goose Up
-- Periods of this database between decisions of an operator after it was set back. Those that were given up began at 0.
CREATE TABLE generations (
  id       text   PRIMARY KEY,
  began_at bigint NOT NULL, -- microseconds since 1970 UTC
  begun_by text   NOT NULL,
  withhold boolean NOT NULL DEFAULT false -- history has not said yet which records were withdrawn after the backup
);
INSERT INTO generations (id, began_at, begun_by) VALUES (lower(hex(randomblob(8))), 1, '');

-- Marks that others remember and this database lacks. While there are any, it is set back.
CREATE TABLE claims (
  mark text PRIMARY KEY
);

DROP TABLE set_backs;
DROP TABLE feed_copies;
DROP TABLE witnessed;
DROP TABLE withheld;
ALTER TABLE feed_cursor ADD COLUMN mark text NOT NULL DEFAULT '';         -- newest mark of history in this copy
ALTER TABLE feed_cursor ADD COLUMN restarted boolean NOT NULL DEFAULT false;   -- the copy has started over: summaries of sequence 0 are from before

-- +goose Down
SELECT 1;
