-- Replaces a mark, and publishes the epochs of the changes up to it, if the stored mark is the one that the caller has verified. Otherwise it
-- changes nothing. Returns the stored mark, or '' instead of a value that is too long to be one.
--
-- KEYS 1 hash   ARGV 1 field of the mark   2 verified mark, '' for none   3 new mark, '' to keep it   4 TTL of the hash in seconds
--                    5 '' to raise epochs, 'set' to set them   6.. account, epoch, field of its state, state or ''

local stored = redis.call('HGET', KEYS[1], ARGV[1]) or ''
if #stored > 100 then stored = '' end
if stored ~= ARGV[2] then return stored end
for i = 6, #ARGV, 4 do
  local old = redis.call('HGET', KEYS[1], ARGV[i]) or ''
  if ARGV[5] == 'set' or #old > 16 or not string.match(old, '^%d+$') or tonumber(old) <= tonumber(ARGV[i + 1]) then
    redis.call('HSET', KEYS[1], ARGV[i], ARGV[i + 1])
    if ARGV[i + 3] == '' then
      redis.call('HDEL', KEYS[1], ARGV[i + 2])
    else
      redis.call('HSET', KEYS[1], ARGV[i + 2], ARGV[i + 3])
    end
  end
end
if ARGV[3] ~= '' then redis.call('HSET', KEYS[1], ARGV[1], ARGV[3]) end
redis.call('EXPIRE', KEYS[1], ARGV[4])
return stored
