-- Instants are microseconds since 1970 UTC.

-- +goose Up
-- Who asks the processor for a state takes a number here before it asks. A state is kept only over one with a smaller number.
CREATE TABLE tickets (
    id    INTEGER PRIMARY KEY CHECK (id = 1),
    value INTEGER NOT NULL
) STRICT;
INSERT INTO tickets VALUES (1, 0);

-- What an account has paid for, as authquota is to know it. A row is there from the first thing on that was heard of an account; its
-- lock keeps the changes of one account in a row.
CREATE TABLE entitlements (
    account        TEXT    PRIMARY KEY,
    tier           TEXT    NOT NULL,
    paid_until     INTEGER,
    renews         INTEGER NOT NULL CHECK (renews IN (0, 1)),
    trouble        TEXT    NOT NULL,
    version        INTEGER NOT NULL, -- 0: nothing was ever paid for, and authquota need not know
    pushed_version INTEGER NOT NULL CHECK (pushed_version <= version), -- the last that authquota has accepted
    push_at        INTEGER,          -- when to tell authquota, 0: at once; null: it knows
    push_failures  INTEGER NOT NULL, -- in a row
    changed_at     INTEGER NOT NULL
) STRICT;
CREATE INDEX entitlements_owed ON entitlements (push_at) WHERE push_at IS NOT NULL;

CREATE TABLE customers (
    account    TEXT    PRIMARY KEY,
    customer   TEXT    NOT NULL UNIQUE, -- the processor's id
    created_at INTEGER NOT NULL
) STRICT;

-- The page on which an account buys. It is one page for as long as it is of use, however often somebody clicks.
CREATE TABLE checkouts (
    account    TEXT    PRIMARY KEY,
    attempt    TEXT    NOT NULL,
    return_url TEXT    NOT NULL,
    url        TEXT    NOT NULL, -- empty until the processor has answered
    created_at INTEGER NOT NULL
) STRICT;

CREATE TABLE subscriptions (
    id         TEXT    PRIMARY KEY, -- the processor's
    account    TEXT    NOT NULL,
    customer   TEXT    NOT NULL,
    state      TEXT    NOT NULL,
    asked      INTEGER NOT NULL, -- the ticket under which the processor was asked for the state
    changed_at INTEGER NOT NULL
) STRICT;
CREATE INDEX subscriptions_account ON subscriptions (account);
CREATE INDEX subscriptions_customer ON subscriptions (customer);

-- Announcements of the processor that were dealt with.
CREATE TABLE events (
    id          TEXT    PRIMARY KEY,
    received_at INTEGER NOT NULL
) STRICT;
CREATE INDEX events_received_at ON events (received_at);

-- Who did what, when. No foreign keys: an entry outlives what it speaks of.
CREATE TABLE audit_log (
    id      INTEGER PRIMARY KEY AUTOINCREMENT,
    at      INTEGER NOT NULL,
    actor   TEXT    NOT NULL,
    action  TEXT    NOT NULL,
    subject TEXT    NOT NULL,
    detail  TEXT    NOT NULL
) STRICT;

-- +goose StatementBegin
CREATE TRIGGER audit_log_no_update BEFORE UPDATE ON audit_log BEGIN
    SELECT RAISE(ABORT, 'audit_log is append-only');
END;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE TRIGGER audit_log_no_delete BEFORE DELETE ON audit_log BEGIN
    SELECT RAISE(ABORT, 'audit_log is append-only');
END;
-- +goose StatementEnd
-- INSERT OR REPLACE removes the row in its way, without a word to the trigger above unless the connection has recursive_triggers.
-- +goose StatementBegin
CREATE TRIGGER audit_log_no_replace BEFORE INSERT ON audit_log
WHEN EXISTS (SELECT 1 FROM audit_log WHERE id = NEW.id)
BEGIN
    SELECT RAISE(ABORT, 'audit_log is append-only');
END;
-- +goose StatementEnd

-- +goose Down
DROP TABLE audit_log;
DROP TABLE events;
DROP TABLE subscriptions;
DROP TABLE checkouts;
DROP TABLE customers;
DROP TABLE entitlements;
DROP TABLE tickets;
