-- +goose Up
-- The objects of the sandbox, a fake of Stripe. Empty where Stripe is used.
CREATE TABLE sandbox_objects (
    number   INTEGER PRIMARY KEY AUTOINCREMENT, -- order of creation
    id       TEXT    NOT NULL UNIQUE,
    kind     TEXT    NOT NULL CHECK (kind IN ('lock', 'customer', 'subscription', 'session', 'event', 'request')),
    customer TEXT    NOT NULL, -- empty if the object is not of one customer
    due_at   INTEGER,          -- Unix time in seconds at which the object changes without a request; null: never
    object   TEXT    NOT NULL  -- JSON
) STRICT;
CREATE INDEX sandbox_objects_due ON sandbox_objects (due_at) WHERE due_at IS NOT NULL;
CREATE INDEX sandbox_objects_kind ON sandbox_objects (kind, customer);
INSERT INTO sandbox_objects (id, kind, customer, object) VALUES ('lock', 'lock', '', '{}');

-- Customers and subscriptions of earlier releases stay, times in whole seconds. Open pages have to be opened again.
INSERT INTO sandbox_objects (id, kind, customer, object)
SELECT id, 'customer', id,
    json_object('ID', id, 'Metadata', json_object('account', account), 'Declines', json(CASE declines WHEN 1 THEN 'true' ELSE 'false' END))
FROM sandbox_customers;

INSERT INTO sandbox_objects (id, kind, customer, due_at, object)
SELECT s.id, 'subscription', s.customer, CASE s.status WHEN 'canceled' THEN NULL ELSE 0 END,
    json_object('ID', s.id, 'Customer', s.customer, 'Metadata', json_object('account', c.account), 'Status', s.status,
        'CancelAtPeriodEnd', json(CASE s.cancel_at_period_end WHEN 1 THEN 'true' ELSE 'false' END),
        'CreatedAt', strftime('%Y-%m-%dT%H:%M:%SZ', s.created_at / 1000000, 'unixepoch'),
        'PeriodEnd', strftime('%Y-%m-%dT%H:%M:%SZ', s.period_end / 1000000, 'unixepoch'),
        'Invoices', (SELECT json_group_array(json(invoice)) FROM (
            SELECT json_object('ID', i.id, 'USD', i.usd,
                'From', strftime('%Y-%m-%dT%H:%M:%SZ', i.period_start / 1000000, 'unixepoch'),
                'Until', strftime('%Y-%m-%dT%H:%M:%SZ', i.period_end / 1000000, 'unixepoch'),
                'Renewal', json(CASE WHEN i.number > 1 THEN 'true' ELSE 'false' END),
                'Status', CASE WHEN i.paid = 1 THEN 'paid' WHEN s.status = 'canceled' AND i.number = 1 THEN 'void' ELSE 'open' END,
                'Attempted', json('true'), 'Advances', json(CASE i.paid WHEN 1 THEN 'false' ELSE 'true' END),
                'Refund', CASE i.refunded WHEN 1 THEN i.usd * 100 ELSE 0 END,
                'Dispute', CASE i.dispute WHEN 'open' THEN 'needs_response' ELSE i.dispute END) AS invoice
            FROM sandbox_invoices i WHERE i.subscription = s.id ORDER BY i.number DESC)))
FROM sandbox_subscriptions s JOIN sandbox_customers c ON c.id = s.customer ORDER BY s.id;

-- An event only says that its subscription changed.
INSERT INTO sandbox_objects (id, kind, customer, due_at, object)
SELECT id, 'event', '', 0, json_object('id', id, 'object', 'event', 'type', 'customer.subscription.updated',
    'data', json_object('object', json_object('id', subscription, 'object', 'subscription')))
FROM sandbox_events ORDER BY at, id;

-- Contract: only the sandbox used these tables, and nobody pays there.
DELETE FROM checkouts WHERE url LIKE '%/billing/sandbox/%'; -- these pages are gone
DROP TABLE sandbox_events;
DROP TABLE sandbox_sessions;
DROP TABLE sandbox_invoices;
DROP TABLE sandbox_subscriptions;
DROP TABLE sandbox_customers;

-- +goose Down
DROP TABLE sandbox_objects;
