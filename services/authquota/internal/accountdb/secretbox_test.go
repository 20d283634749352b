package accountdb_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"opportunity.internal/pkg/storetest"
	"opportunity.internal/services/authquota/internal/accountdb"
)

var older, newer = strings.Repeat("0f", 32), strings.Repeat("f0", 32)

func box(t require.TestingT, keys ...string) accountdb.Box {
	return storetest.Must(accountdb.ParseBox(keys))(t)
}

func TestSealedTextOpensOnlyWithItsContext(t *testing.T) {
	b := box(t, newer, older)
	rapid.Check(t, func(t *rapid.T) {
		plain := rapid.SliceOf(rapid.Byte()).Draw(t, "plain")
		context := rapid.String().Draw(t, "context")
		sealed := b.Seal(plain, context)
		require.Equal(t, string(plain), string(storetest.Must(b.Open(sealed, context))(t)))
		require.True(t, strings.HasPrefix(sealed, b.Prefix()))
		require.NotEqual(t, sealed, b.Seal(plain, context), "equal secrets look different")
		other := rapid.String().Filter(func(s string) bool { return s != context }).Draw(t, "other")
		require.ErrorIs(t, storetest.Err(b.Open(sealed, other)), accountdb.ErrSealed)
	})
}

func TestNoChangedTextOpens(t *testing.T) {
	b := box(t, newer, older)
	sealed := b.Seal([]byte("JBSWY3DPEHPK3PXP"), "totp seed acc_1")
	for i := range len(sealed) {
		for bit := range 8 {
			changed := []byte(sealed)
			changed[i] ^= 1 << bit
			_, err := b.Open(string(changed), "totp seed acc_1")
			require.ErrorIs(t, err, accountdb.ErrSealed, "byte %d bit %d", i, bit)
		}
	}
	for _, bad := range []string{"", ".", "..", "v1..", sealed + "A", sealed[:len(sealed)-1], " " + sealed, sealed + "\n",
		sealed + ".x"} {
		require.ErrorIs(t, storetest.Err(b.Open(bad, "totp seed acc_1")), accountdb.ErrSealed, bad)
	}
	require.ErrorIs(t, storetest.Err(accountdb.Box{}.Open(sealed, "totp seed acc_1")), accountdb.ErrSealed)
}

func TestFingerprints(t *testing.T) {
	b := box(t, newer, older)
	one := b.Fingerprint("ada@example.org", "sign-in")
	require.Equal(t, one, box(t, newer).Fingerprint("ada@example.org", "sign-in"))
	require.Len(t, one, 64)
	require.NotEqual(t, one, b.Fingerprint("ada@example.org", "sign-up"))
	require.NotEqual(t, one, box(t, older).Fingerprint("ada@example.org", "sign-in"))
	require.NotEqual(t, b.Fingerprint("bc", "a"), b.Fingerprint("c", "ab"), "parts do not run into each other")
}

func TestBadKeys(t *testing.T) {
	for _, bad := range [][]string{
		nil, {""}, {"word"}, {newer[2:]}, {newer + "00"}, {newer, ""}, {newer, strings.Repeat("xy", 32)},
		{newer, older, newer},
		{newer, strings.ToUpper(newer)}, slices.Repeat([]string{newer}, accountdb.MaxBoxKeys+1),
	} {
		_, err := accountdb.ParseBox(bad)
		require.Error(t, err, "%v", bad)
		require.NotContains(t, err.Error(), "f0f0", "no secret is repeated")
		require.NotContains(t, err.Error(), "xyxy")
	}
}
