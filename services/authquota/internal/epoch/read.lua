-- The epoch of an account; an account that has none gets the present time. After a flush every account so gets one that nobody
-- has seen before.
-- KEYS[1] the hash of epochs   ARGV[1] account   ARGV[2] life of the hash in seconds
local epoch = redis.call('HGET', KEYS[1], ARGV[1])
if not epoch then
  local t = redis.call('TIME')
  epoch = string.format('%.0f', t[1] * 1000000 + t[2]) -- tostring would give 1.76e+15
  redis.call('HSET', KEYS[1], ARGV[1], epoch)
end
redis.call('EXPIRE', KEYS[1], ARGV[2])
return epoch
