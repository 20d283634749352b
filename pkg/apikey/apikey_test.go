package apikey_test

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"log/slog"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"opportunity.internal/pkg/apikey"
)

// golden was assembled by hand from the documented format. It must stay valid, because keys are
// valid for a year.
const golden = "oda_live_0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefg_2MILV8"

func TestGenerate(t *testing.T) {
	form := regexp.MustCompile(`^oda_(live|test)_[0-9A-Za-z]{43}_[0-9A-Za-z]{6}$`)
	for _, prefix := range []string{apikey.Live, apikey.Test} {
		seen := map[apikey.Key]bool{}
		for range 200 {
			key := apikey.Generate(prefix)
			require.Regexp(t, form, key.Reveal())
			require.True(t, strings.HasPrefix(key.Reveal(), prefix))
			parsed, ok := apikey.Parse(key.Reveal())
			require.True(t, ok)
			require.Equal(t, key.Reveal(), parsed.Reveal())
			require.False(t, seen[key], "duplicate key")
			seen[key] = true
		}
	}
}

func TestParse(t *testing.T) {
	_, ok := apikey.Parse(golden)
	require.True(t, ok)
	for name, s := range map[string]string{
		"empty":                 "",
		"prefix only":           "oda_live_",
		"one character short":   golden[:len(golden)-1],
		"one character more":    golden + "0",
		"another prefix":        "oda_beta_" + golden[9:],
		"prefix in upper case":  "ODA_live_" + golden[9:],
		"prefix exchanged":      "oda_test_" + golden[9:],
		"space before":          " " + golden[:len(golden)-1],
		"another separator":     golden[:52] + "-" + golden[53:],
		"checksum of something": golden[:53] + "000000",
		"no base62":             strings.Replace(golden, "ABC", "A-C", 1),
		"no ASCII":              strings.Replace(golden, "AB", "é", 1),
		"control character":     strings.Replace(golden, "A", "\n", 1),
	} {
		t.Run(name, func(t *testing.T) {
			_, ok := apikey.Parse(s)
			require.False(t, ok)
		})
	}
}

// CRC-32 detects every error burst of up to 32 bits, so it detects every single wrong character.
func TestParseDetectsEveryWrongCharacter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		key := []byte(apikey.Generate(rapid.SampledFrom([]string{apikey.Live, apikey.Test}).Draw(t, "prefix")).Reveal())
		at := rapid.IntRange(0, len(key)-1).Draw(t, "at")
		wrong := rapid.Byte().Filter(func(b byte) bool { return b != key[at] }).Draw(t, "wrong")
		key[at] = wrong
		if _, ok := apikey.Parse(string(key)); ok {
			t.Fatalf("accepted with %q at %d", wrong, at)
		}
	})
}

func TestDigests(t *testing.T) {
	key, _ := apikey.Parse(golden)
	older, newer := []byte("an older pepper of 32 bytes ...."), []byte("a newer pepper of 32 bytes .....")
	digests := key.Digests([][]byte{newer, older})
	require.Len(t, digests, 2)
	require.Regexp(t, `^[0-9a-f]{64}$`, digests[0])
	require.NotEqual(t, digests[0], digests[1])
	require.Equal(t, key.Digests([][]byte{older}), digests[1:], "in the order of the peppers")
}

func TestFingerprintsIdentifyPeppersWithoutRevealingThem(t *testing.T) {
	one, two := make([]byte, 32), []byte("another pepper with its 32 bytes")
	prints := apikey.Fingerprints([][]byte{one, two})
	require.Len(t, prints, 2)
	require.NotEqual(t, prints[0], prints[1])
	require.Equal(t, prints[1:], apikey.Fingerprints([][]byte{two}))
	require.NotContains(t, prints, hex.EncodeToString(one))
}

func TestOlderKeys(t *testing.T) {
	pepper := []byte("a pepper of 32 bytes ...........")
	older := apikey.OlderOf("sk-legacy-0001")
	require.Equal(t, apikey.Older("947f7d79aa230c88271c203e5b3e1e476b76d8c13b947da26df4947467d7dbf2"), older)
	imported, ok := apikey.ParseOlder(strings.ToUpper(string(older)))
	require.True(t, ok)
	require.Equal(t, older.Digests([][]byte{pepper}), imported.Digests([][]byte{pepper}),
		"a presented and an imported key have the same digests")
	key, _ := apikey.Parse(golden)
	require.NotEqual(t, key.Digests([][]byte{pepper}), apikey.OlderOf(golden).Digests([][]byte{pepper}),
		"the digests differ from those of a Key")
	for _, bad := range []string{"", "00", string(older[1:]), string(older) + "0", strings.Repeat("xy", 32)} {
		_, ok := apikey.ParseOlder(bad)
		require.False(t, ok, bad)
	}
}

func TestPeppers(t *testing.T) {
	one, two := strings.Repeat("0f", 32), strings.Repeat("A0", 40)
	peppers, err := apikey.Peppers([]string{one, two})
	require.NoError(t, err)
	require.Equal(t, bytes.Repeat([]byte{0x0f}, 32), peppers[0])
	require.Equal(t, bytes.Repeat([]byte{0xa0}, 40), peppers[1])
	for _, bad := range [][]string{nil, {}, {""}, {one, ""}, {one[2:]}, {one + "0"}, {one, strings.Repeat("xy", 32)},
		slices.Repeat([]string{one}, apikey.MaxPeppers+1)} {
		_, err := apikey.Peppers(bad)
		require.ErrorContains(t, err, "pepper")
		require.NotContains(t, err.Error(), "0f0f", "the error has no value")
	}
}

func TestPrintingDoesNotLeakKey(t *testing.T) {
	key, _ := apikey.Parse(golden)
	var out bytes.Buffer
	for _, verb := range []string{"%s", "%v", "%+v", "%#v", "%q", "%x", "%X", "%d", "%t"} {
		fmt.Fprintf(&out, verb+" ", key)
		fmt.Fprintf(&out, verb+" ", &key)
		fmt.Fprintf(&out, verb+" ", struct{ K apikey.Key }{key})
	}
	encoded, err := json.Marshal(map[string]any{"key": key, "pointer": &key, "list": []apikey.Key{key}})
	require.NoError(t, err)
	out.Write(encoded)
	slog.New(slog.NewJSONHandler(&out, nil)).Info("x", "key", key, "in", struct{ K apikey.Key }{key})
	slog.New(slog.NewTextHandler(&out, nil)).Info("x", "key", key, "in", struct{ K apikey.Key }{key})

	secret := golden[len(apikey.Live):]
	require.NotContains(t, out.String(), secret[:8])
	require.NotContains(t, strings.ToLower(out.String()), fmt.Sprintf("%x", secret[:8]))
	require.Contains(t, out.String(), "oda_live_…")
}

func FuzzParse(f *testing.F) {
	f.Add(golden)
	f.Add("oda_test_" + golden[9:])
	f.Add("")
	f.Add("oda_live__")
	form := regexp.MustCompile(`^oda_(live|test)_[0-9A-Za-z]{43}_[0-9A-Za-z]{6}$`)
	f.Fuzz(func(t *testing.T, s string) {
		key, ok := apikey.Parse(s)
		if !ok {
			require.Empty(t, key.Reveal())
			return
		}
		require.Equal(t, s, key.Reveal())
		require.Regexp(t, form, s)
	})
}
