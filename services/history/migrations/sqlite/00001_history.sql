-- +goose Up
-- Every change takes its number here, first thing in its transaction: the order of numbers is the order of commits.
CREATE TABLE change_sequence (
    id    INTEGER PRIMARY KEY CHECK (id = 1),
    value INTEGER NOT NULL
) STRICT;
INSERT INTO change_sequence VALUES (1, 0);

-- Instants are microseconds since 1970 UTC. The JSON texts are kept as they were hashed, byte by byte.
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
    prev_hash    TEXT    NOT NULL,
    hash         TEXT    NOT NULL,
    UNIQUE (slug, prev_hash) -- a chain has no branches
) STRICT;
CREATE INDEX verification_events_newest ON verification_events (slug, checked_at DESC, sequence DESC);

-- +goose StatementBegin
CREATE TRIGGER append_only_update BEFORE UPDATE ON verification_events
BEGIN
    SELECT RAISE(ABORT, 'table verification_events is append-only: UPDATE refused');
END;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE TRIGGER append_only_delete BEFORE DELETE ON verification_events
BEGIN
    SELECT RAISE(ABORT, 'table verification_events is append-only: DELETE refused');
END;
-- +goose StatementEnd
-- INSERT OR REPLACE removes the row in its way, without a word to the second trigger unless the connection has recursive_triggers.
-- +goose StatementBegin
CREATE TRIGGER append_only_replace BEFORE INSERT ON verification_events
WHEN EXISTS (SELECT 1 FROM verification_events WHERE sequence = NEW.sequence OR id = NEW.id OR content_hash = NEW.content_hash
    OR (slug = NEW.slug AND prev_hash = NEW.prev_hash))
BEGIN
    SELECT RAISE(ABORT, 'table verification_events is append-only: REPLACE refused');
END;
-- +goose StatementEnd

-- What the events of a listing come to: a cache, written in the transaction that appends.
CREATE TABLE summaries (
    slug     TEXT    PRIMARY KEY,
    sequence INTEGER NOT NULL UNIQUE, -- of the listing's newest event
    events   INTEGER NOT NULL,
    summary  TEXT    NOT NULL
) STRICT;

-- What the catalog says of its listings, copied. The greatest sequence is how far the copy has come.
CREATE TABLE listings (
    id              TEXT    PRIMARY KEY,
    sequence        INTEGER NOT NULL,
    published       INTEGER NOT NULL CHECK (published IN (0, 1)),
    application_url TEXT    NOT NULL
) STRICT;
CREATE INDEX listings_sequence ON listings (sequence);
