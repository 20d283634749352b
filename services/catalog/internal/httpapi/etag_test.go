package httpapi

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestEntityTagDependsOnEachPart(t *testing.T) {
	seen := map[string]bool{}
	for _, parts := range [][]string{nil, {""}, {"", ""}, {"a", "b"}, {"ab"}, {"a", "b", ""}, {"b", "a"}, {"a 1:b"},
		{"a", "1:b"}} {
		seen[etag(parts...)] = true
	}
	require.Len(t, seen, 9)
}
