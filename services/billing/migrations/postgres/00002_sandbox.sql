-- +goose Up
-- What the sandbox processor keeps: the state of a stand-in for Stripe, which no real payment ever reaches. Empty where Stripe is used.
-- Instants are microseconds since 1970 UTC.
CREATE TABLE sandbox_customers (
    id       text    PRIMARY KEY,
    account  text    NOT NULL UNIQUE,
    declines boolean NOT NULL -- whether the card is refused when it is charged
);

CREATE TABLE sandbox_subscriptions (
    id                   text    PRIMARY KEY,
    customer             text    NOT NULL REFERENCES sandbox_customers (id),
    status               text    NOT NULL CHECK (status IN ('incomplete', 'active', 'past_due', 'canceled')),
    cancel_at_period_end boolean NOT NULL,
    created_at           bigint  NOT NULL,
    period_end           bigint  NOT NULL
);
CREATE INDEX sandbox_subscriptions_customer ON sandbox_subscriptions (customer);
CREATE INDEX sandbox_subscriptions_due ON sandbox_subscriptions (period_end) WHERE status <> 'canceled';

CREATE TABLE sandbox_invoices (
    id           text    PRIMARY KEY,
    subscription text    NOT NULL REFERENCES sandbox_subscriptions (id),
    number       bigint  NOT NULL,
    usd          bigint  NOT NULL,
    period_start bigint  NOT NULL,
    period_end   bigint  NOT NULL,
    paid         boolean NOT NULL,
    refunded     boolean NOT NULL,
    dispute      text    NOT NULL CHECK (dispute IN ('', 'open', 'won')),
    UNIQUE (subscription, number)
);

CREATE TABLE sandbox_sessions (
    id           text    PRIMARY KEY,
    kind         text    NOT NULL CHECK (kind IN ('checkout', 'portal')),
    customer     text    NOT NULL REFERENCES sandbox_customers (id),
    attempt      text    NOT NULL, -- of one wish to buy; of a portal its own id
    return_url   text    NOT NULL,
    subscription text    NOT NULL, -- what was bought; empty until somebody tried to pay
    expires_at   bigint  NOT NULL,
    UNIQUE (customer, attempt)
);

-- Announcements that have not been taken in yet.
CREATE TABLE sandbox_events (
    id           text    PRIMARY KEY,
    at           bigint  NOT NULL,
    kind         text    NOT NULL,
    subscription text    NOT NULL
);
-- +goose Down
DROP TABLE sandbox_events;
DROP TABLE sandbox_sessions;
DROP TABLE sandbox_invoices;
DROP TABLE sandbox_subscriptions;
DROP TABLE sandbox_customers;
