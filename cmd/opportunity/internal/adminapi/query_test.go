package adminapi

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestEmptyFiltersAreLeftOut(t *testing.T) {
	require.Empty(t, Page{}.query("email", ""))
	require.Equal(t, "?after=acc_1&email=a%26b&limit=5", Page{"acc_1", 5}.query("email", "a&b"))
}
