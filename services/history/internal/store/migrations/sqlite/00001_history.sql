-- Times are microseconds since 1970 UTC.

-- +goose Up
-- Every change takes its number here, first thing in its transaction: the order of numbers is the order of commits.
CREATE TABLE change_sequence (
    id    INTEGER PRIMARY KEY CHECK (id = 1),
    value INTEGER NOT NULL
) STRICT;
INSERT INTO change_sequence VALUES (1, 0);

-- JSON is text, byte by byte as it was hashed.
CREATE TABLE verification_events (
    sequence     INTEGER PRIMARY KEY,
    id           TEXT    NOT NULL UNIQUE,
    slug         TEXT    NOT NULL,
    checked_at   INTEGER NOT NULL,
    check_type   TEXT    NOT NULL CHECK (check_type IN ('review', 'application-link')),
    outcome      TEXT    NOT NULL
        CHECK (outcome IN ('verified', 'reachable', 'blocked', 'unreachable', 'closed', 'needs-review')),
    source_urls  TEXT    NOT NULL,
    facts        TEXT,
    note         TEXT    NOT NULL,
    actor        TEXT    NOT NULL,
    recorded_at  INTEGER NOT NULL,
    content_hash TEXT    NOT NULL UNIQUE,
    evidence     TEXT    NOT NULL -- the private part, salted JSON as it was hashed
) STRICT;
CREATE INDEX verification_events_newest ON verification_events (slug, checked_at DESC, sequence DESC);
CREATE INDEX verification_events_reviews ON verification_events (slug, checked_at DESC, sequence DESC) WHERE check_type = 'review';
-- For the reviews of a day, and for what an operator did.
CREATE INDEX verification_events_recorded ON verification_events (recorded_at);
CREATE INDEX verification_events_actor ON verification_events (actor, sequence);

-- +goose StatementBegin
CREATE TRIGGER append_only_update BEFORE UPDATE ON verification_events
BEGIN
    SELECT RAISE(ABORT, 'table verification_events is append-only: UPDATE rejected');
END;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE TRIGGER append_only_delete BEFORE DELETE ON verification_events
BEGIN
    SELECT RAISE(ABORT, 'table verification_events is append-only: DELETE rejected');
END;
-- +goose StatementEnd
-- INSERT OR REPLACE removes the row in its way, and does not call the second trigger unless the connection has recursive_triggers.
-- +goose StatementBegin
CREATE TRIGGER append_only_replace BEFORE INSERT ON verification_events
WHEN EXISTS (SELECT 1 FROM verification_events WHERE sequence = NEW.sequence OR id = NEW.id OR content_hash = NEW.content_hash)
BEGIN
    SELECT RAISE(ABORT, 'table verification_events is append-only: REPLACE rejected');
END;
-- +goose StatementEnd

-- What the events of a listing come to: a cache, written in the transaction that appends.
CREATE TABLE summaries (
    slug     TEXT    PRIMARY KEY,
    sequence INTEGER NOT NULL UNIQUE, -- of the listing's newest event
    events   INTEGER NOT NULL,
    summary  TEXT    NOT NULL,
    -- ids of events that the pages of a listing follow, empty if there is none; never an undone review
    latest_review   TEXT NOT NULL,
    latest_verified TEXT NOT NULL,
    latest_evidence TEXT NOT NULL
) STRICT;

-- What the catalog says of its listings, copied.
CREATE TABLE listings (
    id              TEXT    PRIMARY KEY,
    sequence        INTEGER NOT NULL,
    published       INTEGER NOT NULL CHECK (published IN (0, 1)),
    application_url TEXT    NOT NULL,
    pages           TEXT    NOT NULL DEFAULT '[]' -- JSON array of URLs
) STRICT;
CREATE INDEX listings_sequence ON listings (sequence);

-- The run of the link checker. Only who holds the lease may claim links; a run that died holds it until it expires.
CREATE TABLE link_run (
    id            INTEGER PRIMARY KEY CHECK (id = 1),
    run           TEXT    NOT NULL, -- the run that holds the lease, empty for none
    held_until    INTEGER NOT NULL,
    ended_at      INTEGER NOT NULL, -- of the last run that came to an end; 0 before any
    took          INTEGER NOT NULL, -- microseconds
    succeeded_at  INTEGER NOT NULL  -- when a run last came to the end of all that was due
) STRICT;
INSERT INTO link_run VALUES (1, '', 0, 0, 0, 0);

-- The last check of each listing's application link. A row is written before the link is asked, and names the instant of the
-- day at which the check fell due: no other run checks the same instant, whatever the result.
CREATE TABLE link_checks (
    slug        TEXT    PRIMARY KEY,
    due_at      INTEGER NOT NULL,
    run         TEXT    NOT NULL,
    claimed_at  INTEGER NOT NULL,
    recorded_at INTEGER NOT NULL -- 0 until the event is appended, in the same transaction
) STRICT;

CREATE TABLE link_outcomes (
    outcome TEXT    PRIMARY KEY,
    checks  INTEGER NOT NULL
) STRICT;
INSERT INTO link_outcomes VALUES ('reachable', 0), ('blocked', 0), ('unreachable', 0), ('closed', 0), ('needs-review', 0);

-- The last attempt of the link checker to read each page that listings cite.
CREATE TABLE pages (
    url     TEXT    PRIMARY KEY,
    read_at INTEGER NOT NULL, -- of the last attempt
    outcome TEXT    NOT NULL, -- as of an application link
    note    TEXT    NOT NULL, -- why no text was read; empty if it was
    sha256  TEXT    NOT NULL, -- of the text that was read last, empty if none ever was
    text_at INTEGER NOT NULL  -- when it was read
) STRICT;

CREATE TABLE page_texts (
    sha256  TEXT    PRIMARY KEY, -- of the text
    content BLOB    NOT NULL,    -- the text, as gzip
    read_at INTEGER NOT NULL     -- when a page last had it
) STRICT;

-- The listings whose latest quotes are all present, or some missing. An append of a review deletes its row.
CREATE TABLE listing_findings (
    slug TEXT PRIMARY KEY,
    finding TEXT NOT NULL CHECK (finding IN ('present', 'missing'))
) STRICT;

-- The tree over all events, as tiles of C2SP tlog-tiles: up to 256 hashes of 32 bytes. The last tile of each level grows.
CREATE TABLE log_tiles (
    level  INTEGER NOT NULL,
    number INTEGER NOT NULL,
    hashes BLOB    NOT NULL,
    PRIMARY KEY (level, number)
) STRICT;

-- The signed checkpoints of the log. The signed text decides.
CREATE TABLE log_checkpoints (
    origin  TEXT    NOT NULL,
    size    INTEGER NOT NULL, -- events
    made_at INTEGER NOT NULL,
    note    TEXT    NOT NULL,
    PRIMARY KEY (origin, size)
) STRICT;
CREATE INDEX log_checkpoints_size ON log_checkpoints (size DESC);

-- The cosignatures of witnesses.
CREATE TABLE log_cosignatures (
    origin    TEXT    NOT NULL,
    size      INTEGER NOT NULL,
    witness   TEXT    NOT NULL,
    signature TEXT    NOT NULL, -- base64
    made_at   INTEGER NOT NULL,
    PRIMARY KEY (origin, size, witness),
    FOREIGN KEY (origin, size) REFERENCES log_checkpoints
) STRICT;

-- +goose StatementBegin
CREATE TRIGGER log_tiles_update BEFORE UPDATE ON log_tiles
WHEN NEW.level <> OLD.level OR NEW.number <> OLD.number OR substr(NEW.hashes, 1, length(OLD.hashes)) <> OLD.hashes
BEGIN
    SELECT RAISE(ABORT, 'table log_tiles: a tile only grows: UPDATE rejected');
END;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE TRIGGER log_tiles_delete BEFORE DELETE ON log_tiles
BEGIN
    SELECT RAISE(ABORT, 'table log_tiles: a tile only grows: DELETE rejected');
END;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE TRIGGER log_checkpoints_update BEFORE UPDATE ON log_checkpoints
BEGIN
    SELECT RAISE(ABORT, 'table log_checkpoints is append-only: UPDATE rejected');
END;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE TRIGGER log_checkpoints_delete BEFORE DELETE ON log_checkpoints
BEGIN
    SELECT RAISE(ABORT, 'table log_checkpoints is append-only: DELETE rejected');
END;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE TRIGGER log_cosignatures_update BEFORE UPDATE ON log_cosignatures
BEGIN
    SELECT RAISE(ABORT, 'table log_cosignatures is append-only: UPDATE rejected');
END;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE TRIGGER log_cosignatures_delete BEFORE DELETE ON log_cosignatures
BEGIN
    SELECT RAISE(ABORT, 'table log_cosignatures is append-only: DELETE rejected');
END;
-- +goose StatementEnd
-- INSERT OR REPLACE removes the row in its way, and does not call the triggers above unless the connection has recursive_triggers.
-- +goose StatementBegin
CREATE TRIGGER log_checkpoints_replace BEFORE INSERT ON log_checkpoints
WHEN EXISTS (SELECT 1 FROM log_checkpoints WHERE origin = NEW.origin AND size = NEW.size)
BEGIN
    SELECT RAISE(ABORT, 'table log_checkpoints is append-only: REPLACE rejected');
END;
-- +goose StatementEnd

-- Reviews that were drawn for the opinion of another curator, and the opinions.
CREATE TABLE second_opinions (
    event_id    text   NOT NULL PRIMARY KEY, -- the drawn review
    sequence    bigint NOT NULL,             -- of that review
    slug        text   NOT NULL,
    reviewer    text   NOT NULL,
    drawn_at    bigint NOT NULL,
    actor       text,                        -- null until an opinion is given
    given_at    bigint,
    review      text,                        -- as sent; JSON
    differs     text,                        -- JSON array of facts
    recorded_id text                         -- the event that the opinion was recorded as
);
CREATE INDEX second_opinions_open ON second_opinions (drawn_at) WHERE actor IS NULL;
CREATE INDEX second_opinions_recorded ON second_opinions (recorded_id);

-- Periods of this database between decisions of an operator after it was set back. Those that were given up began at 0.
CREATE TABLE generations (
  id       text   PRIMARY KEY,
  began_at bigint NOT NULL, -- microseconds since 1970 UTC
  begun_by text   NOT NULL,
  covered  bigint NOT NULL DEFAULT 0 -- greatest sequence of an event that the catalog has seen
);
INSERT INTO generations (id, began_at, begun_by) VALUES (lower(hex(randomblob(8))), 1, '');

-- Marks that others remember and this database lacks. While there are any, it is set back.
CREATE TABLE claims (
  mark text PRIMARY KEY
);

-- Position of the copy of the catalog's listings.
CREATE TABLE feed_cursor (
  id       integer PRIMARY KEY CHECK (id = 1),
  position bigint  NOT NULL,
  mark     text    NOT NULL, -- newest mark of the catalog in this copy
  restarted boolean NOT NULL -- the copy has started over: listings of sequence 0 are from before
);
INSERT INTO feed_cursor VALUES (1, 0, '', false);

