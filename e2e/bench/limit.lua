-- Admits a call if its account made fewer than ARGV[1] calls in the last minute, counted in two buckets: the calls of the current minute,
-- and those of the one before in proportion to how much of it is less than a minute ago. Replies 1 or 0.
local time = redis.call('TIME')
local minute = math.floor(time[1] / 60)
local calls = redis.call('HMGET', KEYS[1], minute, minute - 1)
local current, previous = tonumber(calls[1] or 0), tonumber(calls[2] or 0)
if current + previous * (1 - time[1] % 60 / 60) >= tonumber(ARGV[1]) then return 0 end
if current == 0 then
  redis.call('HDEL', KEYS[1], minute - 2)
  redis.call('EXPIRE', KEYS[1], 180)
end
redis.call('HINCRBY', KEYS[1], minute, 1)
return 1
