-- Instants are microseconds since 1970 UTC.

-- +goose Up
-- Who asks the processor for a state takes a number here before it asks. A state is kept only over one with a smaller number.
CREATE TABLE tickets (
    id    integer PRIMARY KEY CHECK (id = 1),
    value bigint  NOT NULL
);
INSERT INTO tickets VALUES (1, 0);

-- What an account has paid for, as authquota is to know it. A row is there from the first thing on that was heard of an account; its
-- lock keeps the changes of one account in a row.
CREATE TABLE entitlements (
    account        text    PRIMARY KEY,
    tier           text    NOT NULL,
    paid_until     bigint,
    renews         boolean NOT NULL,
    trouble        text    NOT NULL,
    version        bigint  NOT NULL, -- 0: nothing was ever paid for, and authquota need not know
    pushed_version bigint  NOT NULL CHECK (pushed_version <= version), -- the last that authquota has accepted
    push_at        bigint,           -- when to tell authquota, 0: at once; null: it knows
    push_failures  integer NOT NULL, -- in a row
    changed_at     bigint  NOT NULL
);
CREATE INDEX entitlements_owed ON entitlements (push_at) WHERE push_at IS NOT NULL;

CREATE TABLE customers (
    account    text   PRIMARY KEY,
    customer   text   NOT NULL UNIQUE, -- the processor's id
    created_at bigint NOT NULL
);

-- The page on which an account buys. It is one page for as long as it is of use, however often somebody clicks.
CREATE TABLE checkouts (
    account    text   PRIMARY KEY,
    attempt    text   NOT NULL,
    return_url text   NOT NULL,
    url        text   NOT NULL, -- empty until the processor has answered
    created_at bigint NOT NULL
);

CREATE TABLE subscriptions (
    id         text   PRIMARY KEY, -- the processor's
    account    text   NOT NULL,
    customer   text   NOT NULL,
    state      text   NOT NULL,
    asked      bigint NOT NULL, -- the ticket under which the processor was asked for the state
    changed_at bigint NOT NULL
);
CREATE INDEX subscriptions_account ON subscriptions (account);
CREATE INDEX subscriptions_customer ON subscriptions (customer);

-- Announcements of the processor that were dealt with.
CREATE TABLE events (
    id          text   PRIMARY KEY,
    received_at bigint NOT NULL
);
CREATE INDEX events_received_at ON events (received_at);

-- Who did what, when. No foreign keys: an entry outlives what it speaks of.
CREATE TABLE audit_log (
    id      bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at      bigint NOT NULL,
    actor   text   NOT NULL,
    action  text   NOT NULL,
    subject text   NOT NULL,
    detail  text   NOT NULL
);
COMMENT ON TABLE audit_log IS 'append-only';

-- +goose StatementBegin
CREATE FUNCTION audit_log_is_append_only() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'audit_log is append-only';
END
$$;
-- +goose StatementEnd
CREATE TRIGGER audit_log_is_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON audit_log
    FOR EACH STATEMENT EXECUTE FUNCTION audit_log_is_append_only();
-- also for a session that sets session_replication_role to replica
ALTER TABLE audit_log ENABLE ALWAYS TRIGGER audit_log_is_append_only;

-- +goose Down
DROP TABLE audit_log;
DROP FUNCTION audit_log_is_append_only;
DROP TABLE events;
DROP TABLE subscriptions;
DROP TABLE checkouts;
DROP TABLE customers;
DROP TABLE entitlements;
DROP TABLE tickets;
