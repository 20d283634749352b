-- Gives one call back to an account and to the service, on the day that it was charged on. The minute window keeps it.
--
-- KEYS  1 hash of that day    2 hash of accounts that were taken over by others
-- ARGV  1 account    2 field of all accounts    3 field that is there where the account's calls of the day count for another one
-- Replies the calls on that day, after it, of the account or of the one that has taken it over; -1 where the hash is gone.
-- An account without a charge gets none back, nor does the service: after a loss of Redis the call may not be in the hash.

local account = ARGV[1]
local spent = redis.call('HMGET', KEYS[1], account, ARGV[2], ARGV[3])
if not spent[2] then return -1 end
if spent[3] then
  account = redis.call('HGET', KEYS[2], account) or account
  spent[1] = redis.call('HGET', KEYS[1], account)
end
local used, all = tonumber(spent[1] or 0), tonumber(spent[2])
if used < 1 then return 0 end
redis.call('HSET', KEYS[1], account, string.format('%.0f', used - 1), ARGV[2], string.format('%.0f', math.max(0, all - 1)))
return used - 1
