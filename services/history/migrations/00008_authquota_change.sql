-- +goose Up
-- The newest change of authquota's database that a gateway has reported.
INSERT INTO feed_copies VALUES ('authquota', 0, '', false);

-- +goose Down
DELETE FROM feed_copies WHERE feed = 'authquota';
