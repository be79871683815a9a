module halfhitch/bench/dtm

go 1.24

require github.com/dtm-labs/dtm v1.19.0
