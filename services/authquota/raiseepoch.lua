-- Increments the epoch of an account above all previous values, even if the clock was set back or the hash was lost.
-- KEYS[1] hash of epochs   ARGV[1] account   ARGV[2] TTL of the hash in seconds
local old = tonumber(redis.call('HGET', KEYS[1], ARGV[1]) or '0')
local t = redis.call('TIME')
local epoch = string.format('%.0f', math.max(old + 1, t[1] * 1000000 + t[2])) -- exact: below 2^53 until the year 2255
redis.call('HSET', KEYS[1], ARGV[1], epoch)
redis.call('EXPIRE', KEYS[1], ARGV[2])
return epoch
