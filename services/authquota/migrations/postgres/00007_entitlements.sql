-- What accounts have paid for, as billing told it last, beside the tier that they were granted.

-- +goose Up
CREATE TABLE entitlements (
  account_id text    PRIMARY KEY REFERENCES accounts (id),
  holder_id  text    NOT NULL REFERENCES accounts (id), -- whose tier it counts for: the account, or the one that has taken it over
  tier       text    NOT NULL CHECK (tier <> ''),
  paid_until bigint,                                    -- the first instant that is not paid for
  renews     boolean NOT NULL,
  trouble    text    NOT NULL CHECK (trouble IN ('', 'payment-failed', 'refunded', 'disputed')),
  version    bigint  NOT NULL CHECK (version >= 1),
  told_on    boolean NOT NULL, -- the person was told that the plan is on, and not yet that it has ended
  CHECK ((tier = 'free') = (paid_until IS NULL))
);
CREATE INDEX entitlements_by_holder ON entitlements (holder_id);
CREATE INDEX entitlements_by_end ON entitlements (paid_until) WHERE told_on;

-- +goose Down
DROP TABLE entitlements;
