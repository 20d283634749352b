-- Returns the epoch of an account. A missing epoch is set to the current time, so after a flush every account gets a new one.
-- KEYS[1] hash of epochs   ARGV[1] account   ARGV[2] TTL of the hash in seconds
local epoch = redis.call('HGET', KEYS[1], ARGV[1])
if not epoch then
  local t = redis.call('TIME')
  epoch = string.format('%.0f', t[1] * 1000000 + t[2]) -- tostring returns 1.76e+15
  redis.call('HSET', KEYS[1], ARGV[1], epoch)
end
redis.call('EXPIRE', KEYS[1], ARGV[2])
return epoch
