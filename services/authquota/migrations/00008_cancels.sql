-- The version of an entitlement after which billing was told to cancel, because the account is closed. Where it is behind the version
-- of a closed account's entitlement, billing is yet to be told.

-- +goose Up
ALTER TABLE entitlements ADD COLUMN cancel_told bigint NOT NULL DEFAULT 0;

-- +goose Down
ALTER TABLE entitlements DROP COLUMN cancel_told;
