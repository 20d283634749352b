-- Changes of accounts, keys and sign-ins, to notice that the database was restored and to write each change outside the database.

-- +goose Up
CREATE TABLE change_sequence (
  id    integer PRIMARY KEY CHECK (id = 1),
  value bigint  NOT NULL
);
INSERT INTO change_sequence (id, value) VALUES (1, 0);

-- One row for each change, in the order of commits. After a restore sequences are used again; ids are not.
CREATE TABLE changes (
  sequence bigint  NOT NULL,
  id       text    NOT NULL,
  at       bigint  NOT NULL, -- microseconds since 1970 UTC
  line     text    NOT NULL, -- of the journal; empty after the retention
  pending  boolean NOT NULL, -- the journal does not have the line yet
  PRIMARY KEY (sequence, id)
);
CREATE INDEX changes_pending ON changes (at) WHERE pending;
CREATE INDEX changes_with_line ON changes (at) WHERE line <> '';

-- What others have seen of this database and is missing from it. See SetBack in pkg/database.
CREATE TABLE set_backs (
  kind        text   NOT NULL,
  number      bigint NOT NULL,
  id          text   NOT NULL,
  note        text   NOT NULL,
  found_at    bigint NOT NULL,
  generation  bigint NOT NULL, -- 0 until an operator accepts the loss
  accepted_at bigint NOT NULL,
  accepted_by text   NOT NULL,
  PRIMARY KEY (kind, number, id)
);

-- +goose Down
DROP TABLE set_backs;
DROP TABLE changes;
DROP TABLE change_sequence;
