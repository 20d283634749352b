-- Contract: nothing was released, so no version needs the removed tables.

-- +goose Up
-- Periods of this database between decisions of an operator after it was set back. Those that were given up began at 0.
CREATE TABLE generations (
  id       text   PRIMARY KEY,
  began_at bigint NOT NULL, -- microseconds since 1970 UTC
  begun_by text   NOT NULL,
  covered  bigint NOT NULL DEFAULT 0 -- greatest sequence of an event that the catalog has seen
);
INSERT INTO generations (id, began_at, begun_by) VALUES (substr(md5(random()::text || clock_timestamp()::text), 1, 16), 1, '');

-- Marks that others remember and this database lacks. While there are any, it is set back.
CREATE TABLE claims (
  mark text PRIMARY KEY
);

DROP TABLE set_backs;
DROP TABLE feed_copies;

-- Position of the copy of the catalog's listings.
CREATE TABLE feed_cursor (
  id       integer PRIMARY KEY CHECK (id = 1),
  position bigint  NOT NULL,
  mark     text    NOT NULL, -- newest mark of the catalog in this copy
  restarted boolean NOT NULL -- the copy has started over: listings of sequence 0 are from before
);
INSERT INTO feed_cursor VALUES (1, 0, '', false);

-- +goose Down
SELECT 1;
