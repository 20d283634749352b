-- +goose Up
-- One row for each change, to recognize it after the database was restored: sequences are used again, ids are not.
CREATE TABLE changes (
  sequence bigint NOT NULL PRIMARY KEY, -- the last one of the change
  id       text   NOT NULL
);

-- What another service has seen of this database and is missing from it. See SetBack in pkg/database.
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

-- The newest change of each copied feed that this service has seen.
CREATE TABLE feed_copies (
  feed         text    NOT NULL PRIMARY KEY,
  sequence     bigint  NOT NULL,
  mark         text    NOT NULL,
  started_over boolean NOT NULL
);
INSERT INTO feed_copies VALUES ('summaries', 0, '', false);

-- The newest checkpoint that history has reported.
CREATE TABLE witnessed (
  id     integer NOT NULL PRIMARY KEY CHECK (id = 1),
  number bigint  NOT NULL,
  note   text    NOT NULL
);
INSERT INTO witnessed VALUES (1, 0, '');

-- +goose Down
DROP TABLE witnessed;
DROP TABLE feed_copies;
DROP TABLE set_backs;
DROP TABLE changes;
