-- +goose Up
-- The objects of the sandbox, a fake of Stripe. Empty where Stripe is used.
CREATE TABLE sandbox_objects (
    number   bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, -- order of creation
    id       text    NOT NULL UNIQUE,
    kind     text    NOT NULL CHECK (kind IN ('lock', 'customer', 'subscription', 'session', 'event', 'request')),
    customer text    NOT NULL, -- empty if the object is not of one customer
    due_at   bigint,           -- Unix time in seconds at which the object changes without a request; null: never
    object   text    NOT NULL  -- JSON
);
CREATE INDEX sandbox_objects_due ON sandbox_objects (due_at) WHERE due_at IS NOT NULL;
CREATE INDEX sandbox_objects_kind ON sandbox_objects (kind, customer);
INSERT INTO sandbox_objects (id, kind, customer, object) VALUES ('lock', 'lock', '', '{}');

-- Customers and subscriptions of earlier releases stay, times in whole seconds. Open pages have to be opened again.
INSERT INTO sandbox_objects (id, kind, customer, object)
SELECT id, 'customer', id,
    json_build_object('ID', id, 'Metadata', json_build_object('account', account), 'Declines', declines)::text
FROM sandbox_customers;

INSERT INTO sandbox_objects (id, kind, customer, due_at, object)
SELECT s.id, 'subscription', s.customer, CASE s.status WHEN 'canceled' THEN NULL ELSE 0 END,
    json_build_object('ID', s.id, 'Customer', s.customer, 'Metadata', json_build_object('account', c.account), 'Status', s.status,
        'CancelAtPeriodEnd', s.cancel_at_period_end,
        'CreatedAt', to_char(to_timestamp(s.created_at / 1000000) AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"'),
        'PeriodEnd', to_char(to_timestamp(s.period_end / 1000000) AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"'),
        'Invoices', (SELECT json_agg(json_build_object('ID', i.id, 'USD', i.usd,
                'From', to_char(to_timestamp(i.period_start / 1000000) AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"'),
                'Until', to_char(to_timestamp(i.period_end / 1000000) AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"'),
                'Renewal', i.number > 1,
                'Status', CASE WHEN i.paid THEN 'paid' WHEN s.status = 'canceled' AND i.number = 1 THEN 'void' ELSE 'open' END,
                'Attempted', true, 'Advances', NOT i.paid,
                'Refund', CASE WHEN i.refunded THEN i.usd * 100 ELSE 0 END,
                'Dispute', CASE i.dispute WHEN 'open' THEN 'needs_response' ELSE i.dispute END) ORDER BY i.number DESC)
            FROM sandbox_invoices i WHERE i.subscription = s.id))::text
FROM sandbox_subscriptions s JOIN sandbox_customers c ON c.id = s.customer ORDER BY s.id;

-- An event only says that its subscription changed.
INSERT INTO sandbox_objects (id, kind, customer, due_at, object)
SELECT id, 'event', '', 0, json_build_object('id', id, 'object', 'event', 'type', 'customer.subscription.updated',
    'data', json_build_object('object', json_build_object('id', subscription, 'object', 'subscription')))::text
FROM sandbox_events ORDER BY at, id;

-- Contract: only the sandbox used these tables, and nobody pays there. During the rollout, its pages in pods of the previous version fail.
DELETE FROM checkouts WHERE url LIKE '%/billing/sandbox/%'; -- these pages are gone
DROP TABLE sandbox_events;
DROP TABLE sandbox_sessions;
DROP TABLE sandbox_invoices;
DROP TABLE sandbox_subscriptions;
DROP TABLE sandbox_customers;

-- +goose Down
DROP TABLE sandbox_objects;
