-- +goose Up
CREATE TABLE change_sequence (
  id    integer PRIMARY KEY CHECK (id = 1),
  value integer NOT NULL
);
INSERT INTO change_sequence (id, value) VALUES (1, 0);

-- Instants are microseconds since 1970 UTC; documents are text, so that their bytes survive.
CREATE TABLE listings (
  id           text    NOT NULL PRIMARY KEY,
  visibility   text    NOT NULL CHECK (visibility IN ('private', 'published', 'withdrawn')),
  document     text    NOT NULL,
  published_at integer,
  changed_at   integer,
  sequence     integer NOT NULL,
  created_at   integer NOT NULL,
  updated_at   integer NOT NULL
);
CREATE UNIQUE INDEX listings_by_sequence ON listings (sequence);

-- Contact details and notes stand apart from what is read for the API.
CREATE TABLE curations (
  listing_id text NOT NULL PRIMARY KEY REFERENCES listings (id),
  contact    text NOT NULL,
  notes      text NOT NULL
);

-- The copy of what history says. A summary may be here before its listing is, so it refers to none.
CREATE TABLE summaries (
  listing_id text    NOT NULL PRIMARY KEY,
  sequence   integer NOT NULL,
  document   text    NOT NULL
);
CREATE TABLE feed_cursor (
  id    integer PRIMARY KEY CHECK (id = 1),
  value integer NOT NULL
);
INSERT INTO feed_cursor (id, value) VALUES (1, 0);

-- Who did what to which listing. No foreign key and names by value: it outlives what it speaks of.
CREATE TABLE listing_changes (
  id         integer PRIMARY KEY AUTOINCREMENT,
  listing_id text    NOT NULL,
  at         integer NOT NULL,
  actor      text    NOT NULL,
  what       text    NOT NULL CHECK (what IN ('imported', 'updated', 'published', 'withdrawn')),
  fields     text    NOT NULL,
  material   boolean NOT NULL
);
CREATE INDEX listing_changes_by_listing ON listing_changes (listing_id, id);

-- +goose StatementBegin
CREATE TRIGGER listing_changes_no_update BEFORE UPDATE ON listing_changes
BEGIN SELECT RAISE(ABORT, 'listing_changes is append-only'); END;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE TRIGGER listing_changes_no_delete BEFORE DELETE ON listing_changes
BEGIN SELECT RAISE(ABORT, 'listing_changes is append-only'); END;
-- +goose StatementEnd
-- INSERT OR REPLACE removes the row in its way, without a word to the trigger above unless the connection has recursive_triggers.
-- +goose StatementBegin
CREATE TRIGGER listing_changes_no_replace BEFORE INSERT ON listing_changes
WHEN EXISTS (SELECT 1 FROM listing_changes WHERE id = NEW.id)
BEGIN
  SELECT RAISE(ABORT, 'listing_changes is append-only');
END;
-- +goose StatementEnd

-- +goose Down
DROP TABLE listing_changes;
DROP TABLE feed_cursor;
DROP TABLE summaries;
DROP TABLE curations;
DROP TABLE listings;
DROP TABLE change_sequence;
