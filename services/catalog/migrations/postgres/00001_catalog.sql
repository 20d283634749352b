-- +goose Up
CREATE TABLE change_sequence (
  id    integer PRIMARY KEY CHECK (id = 1),
  value bigint  NOT NULL
);
INSERT INTO change_sequence (id, value) VALUES (1, 0);

-- Instants are microseconds since 1970 UTC; documents are text, so that their bytes survive.
CREATE TABLE listings (
  id           text   COLLATE "C" PRIMARY KEY,
  visibility   text   NOT NULL CHECK (visibility IN ('private', 'published', 'withdrawn')),
  document     text   NOT NULL,
  published_at bigint,
  changed_at   bigint,
  sequence     bigint NOT NULL,
  created_at   bigint NOT NULL,
  updated_at   bigint NOT NULL
);
CREATE UNIQUE INDEX listings_by_sequence ON listings (sequence);

-- Contact details and notes stand apart from what is read for the API.
CREATE TABLE curations (
  listing_id text PRIMARY KEY REFERENCES listings (id),
  contact    text NOT NULL,
  notes      text NOT NULL
);

-- The copy of what history says. A summary may be here before its listing is, so it refers to none.
CREATE TABLE summaries (
  listing_id text   PRIMARY KEY,
  sequence   bigint NOT NULL,
  document   text   NOT NULL
);
CREATE TABLE feed_cursor (
  id    integer PRIMARY KEY CHECK (id = 1),
  value bigint  NOT NULL
);
INSERT INTO feed_cursor (id, value) VALUES (1, 0);

-- Who did what to which listing. No foreign key and names by value: it outlives what it speaks of.
CREATE TABLE listing_changes (
  id         bigint  GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  listing_id text    NOT NULL,
  at         bigint  NOT NULL,
  actor      text    NOT NULL,
  what       text    NOT NULL CHECK (what IN ('imported', 'updated', 'published', 'withdrawn')),
  fields     text    NOT NULL,
  material   boolean NOT NULL
);
CREATE INDEX listing_changes_by_listing ON listing_changes (listing_id, id);
COMMENT ON TABLE listing_changes IS 'append-only';

-- +goose StatementBegin
CREATE FUNCTION refuse_change() RETURNS trigger LANGUAGE plpgsql AS
$$ BEGIN RAISE EXCEPTION '% is append-only', TG_TABLE_NAME; END $$;
-- +goose StatementEnd
CREATE TRIGGER append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON listing_changes
  FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();

-- +goose Down
DROP TABLE listing_changes, feed_cursor, summaries, curations, listings, change_sequence;
DROP FUNCTION refuse_change;
