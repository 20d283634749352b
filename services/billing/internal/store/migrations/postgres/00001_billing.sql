-- Times are microseconds since 1970 UTC.

-- +goose Up
-- What an account has paid for, for authquota. The row is created with the first event of an account; its lock makes the changes of
-- one account follow each other.
CREATE TABLE entitlements (
    account    text    PRIMARY KEY,
    tier       text    NOT NULL,
    paid_until bigint,
    renews     boolean NOT NULL,
    trouble    text    NOT NULL,
    version    bigint  NOT NULL, -- 0: nothing was ever paid for, and authquota is not informed
    push_at    bigint,           -- when to send it to authquota, 0: at once; null: not pending
    changed_at bigint  NOT NULL
);
CREATE INDEX entitlements_owed ON entitlements (push_at) WHERE push_at IS NOT NULL;

CREATE TABLE customers (
    account    text   PRIMARY KEY,
    customer   text   NOT NULL UNIQUE, -- the processor's id
    created_at bigint NOT NULL
);

-- The checkout page of an account: the same one for as long as it works, however often the button is clicked.
CREATE TABLE checkouts (
    account    text   PRIMARY KEY,
    attempt    text   NOT NULL,
    return_url text   NOT NULL,
    url        text   NOT NULL, -- empty until the processor has responded
    created_at bigint NOT NULL
);

CREATE TABLE subscriptions (
    id         text   PRIMARY KEY, -- the processor's
    account    text   NOT NULL,
    customer   text   NOT NULL,
    state      text   NOT NULL,
    asked      bigint NOT NULL, -- the number of the request for the state
    changed_at bigint NOT NULL
);
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
INSERT INTO generations (id, began_at, begun_by) VALUES (substr(md5(random()::text || clock_timestamp()::text), 1, 16), 1, '');

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
    number   bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, -- order of creation
    id       text    NOT NULL UNIQUE,
    kind     text    NOT NULL CHECK (kind IN ('lock', 'customer', 'subscription', 'checkout', 'portal', 'event')),
    customer text    NOT NULL, -- empty if the object is not of one customer
    due_at   bigint,           -- Unix time in seconds at which the object changes without a request; null: never
    object   text    NOT NULL  -- JSON
);
CREATE INDEX sandbox_objects_due ON sandbox_objects (due_at) WHERE due_at IS NOT NULL;
CREATE INDEX sandbox_objects_kind ON sandbox_objects (kind, customer);
INSERT INTO sandbox_objects (id, kind, customer, object) VALUES ('lock', 'lock', '', '{}');

-- No foreign keys: an entry outlives its subject.
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
