-- Times are microseconds since 1970 UTC.

-- +goose Up
-- Every change takes its number here, first thing in its transaction: the order of numbers is the order of commits.
CREATE TABLE change_sequence (
    id    integer PRIMARY KEY CHECK (id = 1),
    value bigint  NOT NULL
);
INSERT INTO change_sequence VALUES (1, 0);

-- JSON is text, byte by byte as it was hashed.
CREATE TABLE verification_events (
    sequence     bigint PRIMARY KEY,
    id           text   NOT NULL UNIQUE,
    slug         text   NOT NULL,
    checked_at   bigint NOT NULL,
    check_type   text   NOT NULL CHECK (check_type IN ('review', 'application-link')),
    outcome      text   NOT NULL
        CHECK (outcome IN ('verified', 'reachable', 'blocked', 'unreachable', 'closed', 'needs-review')),
    source_urls  text   NOT NULL,
    facts        text,
    note         text   NOT NULL,
    actor        text   NOT NULL,
    recorded_at  bigint NOT NULL,
    content_hash text   NOT NULL UNIQUE,
    evidence     text   NOT NULL -- the private part, salted JSON as it was hashed
);
CREATE INDEX verification_events_newest ON verification_events (slug, checked_at DESC, sequence DESC);
CREATE INDEX verification_events_reviews ON verification_events (slug, checked_at DESC, sequence DESC) WHERE check_type = 'review';
-- For the reviews of a day, and for what an operator did.
CREATE INDEX verification_events_recorded ON verification_events (recorded_at);
CREATE INDEX verification_events_actor ON verification_events (actor, sequence);
COMMENT ON TABLE verification_events IS 'append-only'; -- migrate grants the serving role no more than that

-- +goose StatementBegin
CREATE FUNCTION refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'table % is append-only: % rejected', TG_TABLE_NAME, TG_OP USING ERRCODE = 'restrict_violation';
END
$$;
-- +goose StatementEnd
CREATE TRIGGER append_only_rows BEFORE UPDATE OR DELETE ON verification_events
    FOR EACH ROW EXECUTE FUNCTION refuse_change();
CREATE TRIGGER append_only_table BEFORE TRUNCATE ON verification_events
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
-- also for a session that sets session_replication_role to replica
ALTER TABLE verification_events ENABLE ALWAYS TRIGGER append_only_rows;
ALTER TABLE verification_events ENABLE ALWAYS TRIGGER append_only_table;

-- What the events of a listing come to: a cache, written in the transaction that appends.
CREATE TABLE summaries (
    slug     text   PRIMARY KEY,
    sequence bigint NOT NULL UNIQUE, -- of the listing's newest event
    events   bigint NOT NULL,
    summary  text   NOT NULL,
    -- ids of events that the pages of a listing follow, empty if there is none; never an undone review
    latest_review   text NOT NULL,
    latest_verified text NOT NULL,
    latest_evidence text NOT NULL
);

-- What the catalog says of its listings, copied.
CREATE TABLE listings (
    id              text    PRIMARY KEY,
    sequence        bigint  NOT NULL,
    published       boolean NOT NULL,
    application_url text    NOT NULL,
    pages           text    NOT NULL DEFAULT '[]' -- JSON array of URLs
);
CREATE INDEX listings_sequence ON listings (sequence);

-- The run of the link checker. Only who holds the lease may claim links; a run that died holds it until it expires.
CREATE TABLE link_run (
    id            integer PRIMARY KEY CHECK (id = 1),
    run           text    NOT NULL, -- the run that holds the lease, empty for none
    held_until    bigint  NOT NULL,
    ended_at      bigint  NOT NULL, -- of the last run that came to an end; 0 before any
    took          bigint  NOT NULL, -- microseconds
    succeeded_at  bigint  NOT NULL  -- when a run last came to the end of all that was due
);
INSERT INTO link_run VALUES (1, '', 0, 0, 0, 0);

-- The last check of each listing's application link. A row is written before the link is asked, and names the instant of the
-- day at which the check fell due: no other run checks the same instant, whatever the result.
CREATE TABLE link_checks (
    slug        text   PRIMARY KEY,
    due_at      bigint NOT NULL,
    run         text   NOT NULL,
    claimed_at  bigint NOT NULL,
    recorded_at bigint NOT NULL -- 0 until the event is appended, in the same transaction
);

CREATE TABLE link_outcomes (
    outcome text   PRIMARY KEY,
    checks  bigint NOT NULL
);
INSERT INTO link_outcomes VALUES ('reachable', 0), ('blocked', 0), ('unreachable', 0), ('closed', 0), ('needs-review', 0);

-- The last attempt of the link checker to read each page that listings cite.
CREATE TABLE pages (
    url     text   PRIMARY KEY,
    read_at bigint NOT NULL, -- of the last attempt
    outcome text   NOT NULL, -- as of an application link
    note    text   NOT NULL, -- why no text was read; empty if it was
    sha256  text   NOT NULL, -- of the text that was read last, empty if none ever was
    text_at bigint NOT NULL  -- when it was read
);

CREATE TABLE page_texts (
    sha256  text   PRIMARY KEY, -- of the text
    content bytea  NOT NULL,    -- the text, as gzip
    read_at bigint NOT NULL     -- when a page last had it
);
ALTER TABLE page_texts ALTER COLUMN content SET STORAGE EXTERNAL; -- it is compressed

-- The listings whose latest quotes are all present, or some missing. An append of a review deletes its row.
CREATE TABLE listing_findings (
    slug text PRIMARY KEY,
    finding text NOT NULL CHECK (finding IN ('present', 'missing'))
);

-- The tree over all events, as tiles of C2SP tlog-tiles: up to 256 hashes of 32 bytes. The last tile of each level grows.
CREATE TABLE log_tiles (
    level  integer NOT NULL,
    number bigint  NOT NULL,
    hashes bytea   NOT NULL,
    PRIMARY KEY (level, number)
);

-- The signed checkpoints of the log. The signed text decides.
CREATE TABLE log_checkpoints (
    origin  text   NOT NULL,
    size    bigint NOT NULL, -- events
    made_at bigint NOT NULL,
    note    text   NOT NULL,
    PRIMARY KEY (origin, size)
);
CREATE INDEX log_checkpoints_size ON log_checkpoints (size DESC);
COMMENT ON TABLE log_checkpoints IS 'append-only';

-- The cosignatures of witnesses.
CREATE TABLE log_cosignatures (
    origin    text   NOT NULL,
    size      bigint NOT NULL,
    witness   text   NOT NULL,
    signature text   NOT NULL, -- base64
    made_at   bigint NOT NULL,
    PRIMARY KEY (origin, size, witness),
    FOREIGN KEY (origin, size) REFERENCES log_checkpoints
);
COMMENT ON TABLE log_cosignatures IS 'append-only';

-- +goose StatementBegin
CREATE FUNCTION refuse_other_hashes() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP <> 'UPDATE' OR NEW.level <> OLD.level OR NEW.number <> OLD.number
            OR substring(NEW.hashes FROM 1 FOR length(OLD.hashes)) <> OLD.hashes THEN
        RAISE EXCEPTION 'table log_tiles: a tile only grows: % rejected', TG_OP;
    END IF;
    RETURN NEW;
END
$$;
-- +goose StatementEnd
CREATE TRIGGER log_tiles_grow BEFORE UPDATE OR DELETE ON log_tiles FOR EACH ROW EXECUTE FUNCTION refuse_other_hashes();
ALTER TABLE log_tiles ENABLE ALWAYS TRIGGER log_tiles_grow;

-- +goose StatementBegin
DO $$
DECLARE
    name text;
BEGIN
    FOREACH name IN ARRAY ARRAY['log_checkpoints', 'log_cosignatures'] LOOP
        EXECUTE format('CREATE TRIGGER append_only_rows BEFORE UPDATE OR DELETE ON %I
            FOR EACH ROW EXECUTE FUNCTION refuse_change()', name);
        EXECUTE format('CREATE TRIGGER append_only_table BEFORE TRUNCATE ON %I
            FOR EACH STATEMENT EXECUTE FUNCTION refuse_change()', name);
        EXECUTE format('ALTER TABLE %I ENABLE ALWAYS TRIGGER append_only_rows', name);
        EXECUTE format('ALTER TABLE %I ENABLE ALWAYS TRIGGER append_only_table', name);
    END LOOP;
END
$$;
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
INSERT INTO generations (id, began_at, begun_by) VALUES (substr(md5(random()::text || clock_timestamp()::text), 1, 16), 1, '');

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

