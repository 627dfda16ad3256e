-- Removes what begin.lua and the writes have made. ARGV: prefix, items.
for item = 0, tonumber(ARGV[2]) - 1 do
  local key = ARGV[1] .. item
  redis.call('UNLINK', key, key .. ':rows', key .. ':names')
end
return 0
