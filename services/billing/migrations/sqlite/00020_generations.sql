-- Contract: nothing was released, so no version needs the removed tables.

-- +goose Up
-- Periods of this database between decisions of an operator after it was set back. Those that were given up began at 0.
CREATE TABLE generations (
  id       text   PRIMARY KEY,
  began_at bigint NOT NULL, -- microseconds since 1970 UTC
  begun_by text   NOT NULL
);
INSERT INTO generations (id, began_at, begun_by) VALUES (lower(hex(randomblob(8))), 1, '');

-- Marks that others remember and this database lacks. While there are any, it is set back.
CREATE TABLE claims (
  mark text PRIMARY KEY
);

DROP TABLE set_backs;

-- The generation of authquota's database that has every entitlement.
CREATE TABLE pushed (
  id         integer PRIMARY KEY CHECK (id = 1),
  generation text    NOT NULL
);
INSERT INTO pushed VALUES (1, '');

-- +goose Down
SELECT 1;
