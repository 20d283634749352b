-- Changes of purchases and entitlements, to notice that the database was restored. authquota remembers the newest one.

-- +goose Up
-- The newest change. Versions of entitlements are sequences of changes.
CREATE TABLE change_sequence (
  id    integer PRIMARY KEY CHECK (id = 1),
  value bigint  NOT NULL
);
INSERT INTO change_sequence (id, value) SELECT 1, coalesce(max(version), 0) FROM entitlements;

-- One row for each change, in the order of commits. After a restore sequences may be used again; ids are not.
CREATE TABLE changes (
  sequence bigint NOT NULL PRIMARY KEY,
  id       text   NOT NULL
);

-- What authquota has seen of this database and is missing from it. See SetBack in pkg/database.
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
