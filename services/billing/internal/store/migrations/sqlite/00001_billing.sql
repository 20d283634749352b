-- Times are microseconds since 1970 UTC.

-- +goose Up
-- What an account has paid for, for authquota. The row is created with the first event of an account; its lock makes the changes of
-- one account follow each other.
CREATE TABLE entitlements (
    account    TEXT    PRIMARY KEY,
    tier       TEXT    NOT NULL,
    paid_until INTEGER,
    renews     INTEGER NOT NULL CHECK (renews IN (0, 1)),
    trouble    TEXT    NOT NULL,
    version    INTEGER NOT NULL, -- 0: nothing was ever paid for, and authquota is not informed
    push_at    INTEGER,          -- when to send it to authquota, 0: at once; null: not pending
    changed_at INTEGER NOT NULL
) STRICT;
CREATE INDEX entitlements_owed ON entitlements (push_at) WHERE push_at IS NOT NULL;

CREATE TABLE customers (
    account    TEXT    PRIMARY KEY,
    customer   TEXT    NOT NULL UNIQUE, -- the processor's id
    created_at INTEGER NOT NULL
) STRICT;

-- The checkout page of an account: the same one for as long as it works, however often the button is clicked.
CREATE TABLE checkouts (
    account    TEXT    PRIMARY KEY,
    attempt    TEXT    NOT NULL,
    return_url TEXT    NOT NULL,
    url        TEXT    NOT NULL, -- empty until the processor has responded
    created_at INTEGER NOT NULL
) STRICT;

CREATE TABLE subscriptions (
    id         TEXT    PRIMARY KEY, -- the processor's
    account    TEXT    NOT NULL,
    customer   TEXT    NOT NULL,
    state      TEXT    NOT NULL,
    asked      INTEGER NOT NULL, -- the number of the request for the state
    changed_at INTEGER NOT NULL
) STRICT;
CREATE INDEX subscriptions_account ON subscriptions (account);
CREATE INDEX subscriptions_customer ON subscriptions (customer);

-- Changes of purchases and entitlements, to notice that the database was restored. authquota remembers the newest one.
-- Versions of entitlements are sequences of changes. Each request to the processor for a state takes a number here, too: a state
-- replaces only one with a smaller number.
CREATE TABLE change_sequence (
    id    integer PRIMARY KEY CHECK (id = 1),
    value bigint  NOT NULL
);
INSERT INTO change_sequence VALUES (1, 0);

-- One row for each change, in the order of commits. After a restore sequences may be used again; ids are not.
CREATE TABLE changes (
    sequence bigint NOT NULL PRIMARY KEY,
    id       text   NOT NULL
);

-- Periods of this database between decisions of an operator after it was set back. Those that were given up began at 0.
CREATE TABLE generations (
    id       text   PRIMARY KEY,
    began_at bigint NOT NULL, -- microseconds since 1970 UTC
    begun_by text   NOT NULL
);
INSERT INTO generations (id, began_at, begun_by) VALUES (lower(hex(randomblob(8))), 1, '');

-- Marks that others remember and this database lacks. While there are any, it is set back.
CREATE TABLE claims (
    mark text PRIMARY KEY
);

-- The generation of authquota's database that has every entitlement.
CREATE TABLE pushed (
    id         integer PRIMARY KEY CHECK (id = 1),
    generation text    NOT NULL
);
INSERT INTO pushed VALUES (1, '');

-- The objects of the sandbox. Empty where Stripe is used.
CREATE TABLE sandbox_objects (
    number   INTEGER PRIMARY KEY AUTOINCREMENT, -- order of creation
    id       TEXT    NOT NULL UNIQUE,
    kind     TEXT    NOT NULL CHECK (kind IN ('lock', 'customer', 'subscription', 'checkout', 'portal', 'event')),
    customer TEXT    NOT NULL, -- empty if the object is not of one customer
    due_at   INTEGER,          -- Unix time in seconds at which the object changes without a request; null: never
    object   TEXT    NOT NULL  -- JSON
) STRICT;
CREATE INDEX sandbox_objects_due ON sandbox_objects (due_at) WHERE due_at IS NOT NULL;
CREATE INDEX sandbox_objects_kind ON sandbox_objects (kind, customer);
INSERT INTO sandbox_objects (id, kind, customer, object) VALUES ('lock', 'lock', '', '{}');

-- No foreign keys: an entry outlives its subject.
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
-- INSERT OR REPLACE removes the row in its way, and does not call the trigger above unless the connection has recursive_triggers.
-- +goose StatementBegin
CREATE TRIGGER audit_log_no_replace BEFORE INSERT ON audit_log
WHEN EXISTS (SELECT 1 FROM audit_log WHERE id = NEW.id)
BEGIN
    SELECT RAISE(ABORT, 'audit_log is append-only');
END;
-- +goose StatementEnd
