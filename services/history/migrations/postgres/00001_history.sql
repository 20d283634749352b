-- +goose Up
-- Every change takes its number here, first thing in its transaction: the order of numbers is the order of commits.
CREATE TABLE change_sequence (
    id    integer PRIMARY KEY CHECK (id = 1),
    value bigint  NOT NULL
);
INSERT INTO change_sequence VALUES (1, 0);

-- Instants are microseconds since 1970 UTC. The JSON texts are kept as they were hashed, byte by byte.
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
    prev_hash    text   NOT NULL,
    hash         text   NOT NULL,
    UNIQUE (slug, prev_hash) -- a chain has no branches
);
CREATE INDEX verification_events_newest ON verification_events (slug, checked_at DESC, sequence DESC);
COMMENT ON TABLE verification_events IS 'append-only'; -- migrate grants the serving role no more than that

-- +goose StatementBegin
CREATE FUNCTION refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'table % is append-only: % refused', TG_TABLE_NAME, TG_OP USING ERRCODE = 'restrict_violation';
END
$$;
-- +goose StatementEnd
CREATE TRIGGER append_only_rows BEFORE UPDATE OR DELETE ON verification_events
    FOR EACH ROW EXECUTE FUNCTION refuse_change();
CREATE TRIGGER append_only_table BEFORE TRUNCATE ON verification_events
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
-- Without ALWAYS the triggers would rest in a session that plays the replica.
ALTER TABLE verification_events ENABLE ALWAYS TRIGGER append_only_rows;
ALTER TABLE verification_events ENABLE ALWAYS TRIGGER append_only_table;

-- What the events of a listing come to: a cache, written in the transaction that appends.
CREATE TABLE summaries (
    slug     text   PRIMARY KEY,
    sequence bigint NOT NULL UNIQUE, -- of the listing's newest event
    events   bigint NOT NULL,
    summary  text   NOT NULL
);

-- What the catalog says of its listings, copied. The greatest sequence is how far the copy has come.
CREATE TABLE listings (
    id              text    PRIMARY KEY,
    sequence        bigint  NOT NULL,
    published       boolean NOT NULL,
    application_url text    NOT NULL
);
CREATE INDEX listings_sequence ON listings (sequence);
