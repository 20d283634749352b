-- +goose Up
-- What the sandbox processor keeps: the state of a stand-in for Stripe, which no real payment ever reaches. Empty where Stripe is used.
-- Instants are microseconds since 1970 UTC.
CREATE TABLE sandbox_customers (
    id       TEXT    PRIMARY KEY,
    account  TEXT    NOT NULL UNIQUE,
    declines INTEGER NOT NULL CHECK (declines IN (0, 1)) -- whether the card is refused when it is charged
) STRICT;

CREATE TABLE sandbox_subscriptions (
    id                   TEXT    PRIMARY KEY,
    customer             TEXT    NOT NULL REFERENCES sandbox_customers (id),
    status               TEXT    NOT NULL CHECK (status IN ('incomplete', 'active', 'past_due', 'canceled')),
    cancel_at_period_end INTEGER NOT NULL CHECK (cancel_at_period_end IN (0, 1)),
    created_at           INTEGER NOT NULL,
    period_end           INTEGER NOT NULL
) STRICT;
CREATE INDEX sandbox_subscriptions_customer ON sandbox_subscriptions (customer);
CREATE INDEX sandbox_subscriptions_due ON sandbox_subscriptions (period_end) WHERE status <> 'canceled';

CREATE TABLE sandbox_invoices (
    id           TEXT    PRIMARY KEY,
    subscription TEXT    NOT NULL REFERENCES sandbox_subscriptions (id),
    number       INTEGER NOT NULL,
    usd          INTEGER NOT NULL,
    period_start INTEGER NOT NULL,
    period_end   INTEGER NOT NULL,
    paid         INTEGER NOT NULL CHECK (paid IN (0, 1)),
    refunded     INTEGER NOT NULL CHECK (refunded IN (0, 1)),
    dispute      TEXT    NOT NULL CHECK (dispute IN ('', 'open', 'won')),
    UNIQUE (subscription, number)
) STRICT;

CREATE TABLE sandbox_sessions (
    id           TEXT    PRIMARY KEY,
    kind         TEXT    NOT NULL CHECK (kind IN ('checkout', 'portal')),
    customer     TEXT    NOT NULL REFERENCES sandbox_customers (id),
    attempt      TEXT    NOT NULL, -- of one wish to buy; of a portal its own id
    return_url   TEXT    NOT NULL,
    subscription TEXT    NOT NULL, -- what was bought; empty until somebody tried to pay
    expires_at   INTEGER NOT NULL,
    UNIQUE (customer, attempt)
) STRICT;

-- Announcements that have not been taken in yet.
CREATE TABLE sandbox_events (
    id           TEXT    PRIMARY KEY,
    at           INTEGER NOT NULL,
    kind         TEXT    NOT NULL,
    subscription TEXT    NOT NULL
) STRICT;
-- +goose Down
DROP TABLE sandbox_events;
DROP TABLE sandbox_sessions;
DROP TABLE sandbox_invoices;
DROP TABLE sandbox_subscriptions;
DROP TABLE sandbox_customers;
