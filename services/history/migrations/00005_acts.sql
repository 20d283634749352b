-- +goose Up
-- For the reviews of a day, and for what an operator did.
CREATE INDEX verification_events_recorded ON verification_events (recorded_at);
CREATE INDEX verification_events_actor ON verification_events (actor, sequence);

-- +goose Down
DROP INDEX verification_events_actor;
DROP INDEX verification_events_recorded;
