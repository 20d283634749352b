-- Gives one call back to an account and to the service, on the day that it was charged on. The minute window keeps it.
--
-- KEYS  1 hash of that day    ARGV  1 account    2 field of all accounts
-- Replies the account's calls on that day after it, or -1 where the hash is gone.
-- An account without a charge gets none back, nor does the service: after a loss of Redis the call may not be in the hash.

local spent = redis.call('HMGET', KEYS[1], ARGV[1], ARGV[2])
if not spent[2] then return -1 end
local used, all = tonumber(spent[1] or 0), tonumber(spent[2])
if used < 1 then return 0 end
redis.call('HSET', KEYS[1], ARGV[1], string.format('%.0f', used - 1), ARGV[2], string.format('%.0f', math.max(0, all - 1)))
return used - 1
