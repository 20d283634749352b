-- The newest change of billing's database that this service has seen, so that billing notices when its database was restored.

-- +goose Up
CREATE TABLE feed_copies (
  feed         text    NOT NULL PRIMARY KEY,
  sequence     bigint  NOT NULL,
  mark         text    NOT NULL,
  started_over boolean NOT NULL -- as in the other services; not used here
);
INSERT INTO feed_copies VALUES ('billing', 0, '', false);

-- +goose Down
DROP TABLE feed_copies;
