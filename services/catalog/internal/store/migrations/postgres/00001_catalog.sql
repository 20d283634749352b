-- Times are microseconds since 1970 UTC. JSON is text, so that its bytes survive.

-- +goose Up
CREATE TABLE change_sequence (
  id    integer PRIMARY KEY CHECK (id = 1),
  value bigint  NOT NULL
);
INSERT INTO change_sequence VALUES (1, 0);

-- One row for each change, to recognize it after the database was restored: sequences are used again, ids are not.
CREATE TABLE changes (
  sequence bigint NOT NULL PRIMARY KEY, -- the last one of the change
  id       text   NOT NULL,
  at       bigint NOT NULL,
  public   boolean NOT NULL DEFAULT true -- whether consumers can see the change
);
-- Consumers read the changes of public records by the sequences of the listings.
CREATE INDEX changes_by_time ON changes (at, sequence);
CREATE INDEX changes_public ON changes (sequence) WHERE public;

CREATE TABLE listings (
  id           text    COLLATE "C" PRIMARY KEY,
  visibility   text    NOT NULL CHECK (visibility IN ('private', 'published', 'withdrawn')),
  document     text    NOT NULL,
  published_at bigint,
  changed_at   bigint,
  sequence     bigint  NOT NULL,
  public_sequence bigint  NOT NULL DEFAULT 0, -- of the latest change that consumers can see, 0 if there was none
  past_dates   text    NOT NULL DEFAULT '', -- earliest dates of pages that were sources and have no date now: JSON by URL, or empty
  created_at   bigint  NOT NULL,
  updated_at   bigint  NOT NULL
);
CREATE UNIQUE INDEX listings_by_sequence ON listings (sequence);
CREATE INDEX listings_by_public_sequence ON listings (public_sequence);

-- Contact details and notes stand apart from what is read for the API.
CREATE TABLE curations (
  listing_id text PRIMARY KEY REFERENCES listings (id),
  contact    text NOT NULL,
  notes      text NOT NULL
);

-- Changes of listings. No foreign key, and names by value: a change outlives its listing.
CREATE TABLE listing_changes (
  id          bigint  GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  listing_id  text    NOT NULL,
  at          bigint  NOT NULL,
  actor       text    NOT NULL,
  what        text    NOT NULL CHECK (what IN ('imported', 'updated', 'published', 'withdrawn', 'withdrawal-proposed', 'withdrawal-declined')),
  fields      text    NOT NULL,
  material    boolean NOT NULL,
  reason      text    NOT NULL,
  differences text    NOT NULL, -- old and new values of material changes, for curators; JSON
  sequence    bigint  NOT NULL  -- of the listing after the change: whether its latest change published it
);
CREATE INDEX listing_changes_by_listing ON listing_changes (listing_id, id);
CREATE INDEX listing_changes_by_actor ON listing_changes (actor, id);
CREATE INDEX listing_changes_by_time ON listing_changes (at);
CREATE INDEX listing_changes_withdrawals ON listing_changes (id) WHERE what = 'withdrawal-proposed';
-- Every change of a listing looks for its material changes, which few listings have.
CREATE INDEX listing_changes_material ON listing_changes (listing_id, id) WHERE material;
COMMENT ON TABLE listing_changes IS 'append-only';

-- +goose StatementBegin
CREATE FUNCTION refuse_change() RETURNS trigger LANGUAGE plpgsql AS
$$ BEGIN RAISE EXCEPTION '% is append-only', TG_TABLE_NAME; END $$;
-- +goose StatementEnd
CREATE TRIGGER append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON listing_changes
  FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
-- also for a session that sets session_replication_role to replica
ALTER TABLE listing_changes ENABLE ALWAYS TRIGGER append_only;

-- The copy of the history's summaries. A summary may arrive before its listing, so it does not refer to one.
CREATE TABLE summaries (
  listing_id text   COLLATE "C" PRIMARY KEY,
  sequence   bigint NOT NULL,
  document   text   NOT NULL
);
CREATE TABLE feed_cursor (
  id       integer PRIMARY KEY CHECK (id = 1),
  position bigint  NOT NULL,
  mark      text    NOT NULL DEFAULT '', -- newest mark of history in this copy
  restarted boolean NOT NULL DEFAULT false -- the copy has started over: summaries of sequence 0 are from before
);
INSERT INTO feed_cursor (id, position) VALUES (1, 0);

-- Columns by which curators find listings, derived from a listing and its summary in the transaction that changes one of them.
CREATE TABLE listing_index (
  listing_id         text   COLLATE "C" NOT NULL PRIMARY KEY REFERENCES listings (id),
  visibility         text   NOT NULL,
  category           text   NOT NULL,
  company            text   NOT NULL,
  name_key           text   NOT NULL, -- equal for companies that probably are the same
  host               text   NOT NULL, -- of the website, without www.
  words              text   NOT NULL, -- id and company in lower case
  countries          text   NOT NULL, -- countries with an eligible entry, as ,CA,US,
  sources            bigint NOT NULL,
  application_status text   NOT NULL,
  link_outcome       text   NOT NULL, -- of the latest link check; empty without one
  status             text   NOT NULL, -- unverified, needs-review, or verified, which turns stale after due_at
  due_at             bigint NOT NULL, -- earliest time of the reasons; 0 if unknown
  whys               text   NOT NULL, -- kinds of the reasons, as ,edit,link-check,
  reasons            text   NOT NULL, -- JSON
  last_checked_at    bigint,
  facts              bigint NOT NULL, -- known facts of the latest review
  quoted             bigint NOT NULL  -- those of them that have a quote
);
CREATE INDEX listing_index_due ON listing_index (visibility, due_at, listing_id);
CREATE INDEX listing_index_checked ON listing_index (visibility, last_checked_at);
CREATE INDEX listing_index_host ON listing_index (host, listing_id);
CREATE INDEX listing_index_name ON listing_index (name_key, listing_id);

-- Advisory: a review is protected by its precondition.
CREATE TABLE leases (
  listing_id text   COLLATE "C" NOT NULL PRIMARY KEY REFERENCES listings (id),
  holder     text   NOT NULL,
  taken_at   bigint NOT NULL,
  expires_at bigint NOT NULL
);
CREATE TABLE drafts (
  listing_id text   COLLATE "C" NOT NULL REFERENCES listings (id),
  operator   text   NOT NULL,
  content    text   NOT NULL,
  saved_at   bigint NOT NULL,
  PRIMARY KEY (listing_id, operator)
);
-- The latest source that an operator opened from a review sheet, which had this newest event.
CREATE TABLE openings (
  listing_id text   NOT NULL REFERENCES listings (id),
  operator   text   NOT NULL,
  event_id   text   NOT NULL,
  source_url text   NOT NULL,
  opened_at  bigint NOT NULL,
  PRIMARY KEY (listing_id, operator)
);
CREATE TABLE skips (
  listing_id text   COLLATE "C" NOT NULL PRIMARY KEY REFERENCES listings (id),
  actor      text   NOT NULL,
  reason     text   NOT NULL,
  skipped_at bigint NOT NULL,
  ends_at    bigint NOT NULL
);

-- One row for each UTC day, such as 2026-11-20, with the counts at its last update.
CREATE TABLE freshness_samples (
  day          text   NOT NULL PRIMARY KEY,
  verified     bigint NOT NULL,
  stale        bigint NOT NULL,
  needs_review bigint NOT NULL,
  unverified   bigint NOT NULL
);

-- Periods of this database between decisions of an operator after it was set back. Those that were given up began at 0.
CREATE TABLE generations (
  id       text   PRIMARY KEY,
  began_at bigint NOT NULL, -- microseconds since 1970 UTC
  begun_by text   NOT NULL,
  withhold boolean NOT NULL DEFAULT false -- history has not said yet which records were withdrawn after the backup
);
INSERT INTO generations (id, began_at, begun_by) VALUES (substr(md5(random()::text || clock_timestamp()::text), 1, 16), 1, '');

-- Marks that others remember and this database lacks. While there are any, it is set back.
CREATE TABLE claims (
  mark text PRIMARY KEY
);

