-- Creates the hash of a day from the ledger. An existing hash is left alone, because it is newer than the ledger.
--
-- KEYS  1 hash of the day    ARGV  1 time to live in milliseconds    then field, value, ...
-- Replies 1 if the hash was created, 0 otherwise.

if redis.call('EXISTS', KEYS[1]) == 1 then return 0 end
for first = 2, #ARGV, 1000 do -- unpack is limited to a few thousand values
  redis.call('HSET', KEYS[1], unpack(ARGV, first, math.min(first + 999, #ARGV)))
end
redis.call('PEXPIRE', KEYS[1], ARGV[1])
return 1
