-- Starts the hash of a day with what the ledger has of it. One that exists is left alone: it knows more than the ledger.
--
-- KEYS  1 hash of the day    ARGV  1 time to live in milliseconds    then fields and values in turn
-- Replies 1 where the hash was made.

if redis.call('EXISTS', KEYS[1]) == 1 then return 0 end
for first = 2, #ARGV, 1000 do -- Lua unpacks no more than a few thousand values at once
  redis.call('HSET', KEYS[1], unpack(ARGV, first, math.min(first + 999, #ARGV)))
end
redis.call('PEXPIRE', KEYS[1], ARGV[1])
return 1
