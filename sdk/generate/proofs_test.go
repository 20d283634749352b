package main

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"
)

// proofCase is a case of conformance/proofs/cases.json: what verifying the proof of an event must
// return, or the reason of its error.
type proofCase struct {
	Name  string `json:"name"`
	Proof string `json:"proof"`
	// Times that the last line of the proof is repeated.
	Repeat int       `json:"repeat,omitempty"`
	Keys   proofKeys `json:"keys"`
	Want   proofWant `json:"want"`
}

type proofKeys struct {
	Log       []string `json:"log"`
	Witnesses []string `json:"witnesses,omitempty"`
	Quorum    int      `json:"quorum,omitempty"`
}

type proofWant struct {
	Reason     string      `json:"reason,omitempty"`
	Event      any         `json:"event,omitempty"`
	Origin     string      `json:"origin,omitempty"`
	Size       int64       `json:"size,omitempty"`
	Index      int64       `json:"index,omitempty"`
	RecordedAt string      `json:"recordedAt,omitempty"`
	Witnesses  []proofSeen `json:"witnesses,omitempty"`
}

type proofSeen struct {
	Name string `json:"name"`
	At   string `json:"at"`
}

const (
	proofOrigin = "api.example/opportunity-history"
	proofTime   = "2026-11-20T09:30:00.123456Z"
	seenAt      = 1795167060 // 2026-11-20T09:31:00Z

	// An event with texts of all kinds, and a member that the SDKs do not know.
	proofEvent = `{"checkType":"review","checkedAt":"2026-11-20T09:00:00.12Z","facts":{"applicationStatus":"open",` +
		`"applicationUrl":null,` +
		`"countryEligibility":[],"degreeRequired":null,"experienceRequired":null,"flexibleSchedule":true,"languages":["fr"],` +
		`"pay":null,"remote":true,` +
		`"requirements":[],"riskIndicators":[]},"id":"0198f000-0000-7000-8000-000000000001","later":{"😀":2},` +
		`"note":"Première <visite> & \"ok\"` + "\u2028" +
		`\u0007\n😀","outcome":"verified","slug":"odin-works","sourceUrls":["https://odin.example/a?b=1&c=2"]}`
)

// proofLog is a log with the event at an index.
type proofLog struct {
	size, index int64
	path        []string
	root        tlog.Hash
	leaf        string
}

func newProofLog(size, index int64, leaf string) proofLog {
	var hashes []tlog.Hash
	read := tlog.HashReaderFunc(func(indexes []int64) (out []tlog.Hash, err error) {
		for _, i := range indexes {
			out = append(out, hashes[i])
		}
		return out, nil
	})
	for i := range size {
		entry := fmt.Sprintf("entry %d", i)
		if i == index {
			entry = leaf
		}
		added, err := tlog.StoredHashes(i, []byte(entry), read)
		must(err)
		hashes = append(hashes, added...)
	}
	root, err := tlog.TreeHash(size, read)
	must(err)
	proof, err := tlog.ProveRecord(size, index, read)
	must(err)
	l := proofLog{size: size, index: index, root: root, leaf: leaf}
	for _, h := range proof {
		l.path = append(l.path, h.String())
	}
	return l
}

// leafOf returns the leaf of an event.
func leafOf(event string) string {
	return `{"event":` + event + `,"private":"` + strings.Repeat("ab", 32) + `","recordedAt":"` + proofTime + `"}`
}

// newDeepLog returns a log of 2^levels entries with the event at an odd index, without building it:
// every other subtree has the hash of its level.
func newDeepLog(levels int, leaf string) proofLog {
	l := proofLog{size: 1 << levels, index: 1<<levels/3 | 1, root: tlog.RecordHash([]byte(leaf)), leaf: leaf}
	for level := range levels {
		sibling := tlog.RecordHash([]byte{byte(level)})
		l.path = append(l.path, sibling.String())
		if l.index>>level&1 == 1 {
			l.root = tlog.NodeHash(sibling, l.root)
		} else {
			l.root = tlog.NodeHash(l.root, sibling)
		}
	}
	return l
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

func (l proofLog) text() string {
	return fmt.Sprintf("%s\n%d\n%s\n", proofOrigin, l.size, l.root)
}

// proof returns the proof with a checkpoint.
func (l proofLog) proof(checkpoint string) string {
	lines := append([]string{"c2sp.org/tlog-proof@v1", "extra " + base64.StdEncoding.EncodeToString([]byte(l.leaf)),
		fmt.Sprintf("index %d", l.index)}, l.path...)
	return strings.Join(lines, "\n") + "\n\n" + checkpoint
}

type proofKey struct {
	name string
	kind byte
	key  ed25519.PrivateKey
}

func newProofKey(name string, kind byte, seed string) proofKey {
	return proofKey{name, kind, ed25519.NewKeyFromSeed(bytes.Repeat([]byte(seed), ed25519.SeedSize))}
}

func (k proofKey) id() []byte {
	sum := sha256.Sum256(append(append([]byte(k.name+"\n"), k.kind), k.key.Public().(ed25519.PublicKey)...))
	return sum[:4]
}

func (k proofKey) public() string {
	data := append([]byte{k.kind}, k.key.Public().(ed25519.PublicKey)...)
	return fmt.Sprintf("%s+%x+%s", k.name, k.id(), base64.StdEncoding.EncodeToString(data))
}

// line returns the signature line of a text.
func (k proofKey) line(text string) string {
	if k.kind == 4 {
		return k.lineAt(text, seenAt)
	}
	return k.lineOf(ed25519.Sign(k.key, []byte(text)))
}

// lineAt returns the line of a cosignature at a time.
func (k proofKey) lineAt(text string, seconds uint64) string {
	signature := ed25519.Sign(k.key, fmt.Appendf(nil, "cosignature/v1\ntime %d\n%s", seconds, text))
	return k.lineOf(append(binary.BigEndian.AppendUint64(nil, seconds), signature...))
}

func (k proofKey) lineOf(signature []byte) string {
	return "— " + k.name + " " + base64.StdEncoding.EncodeToString(append(k.id(), signature...)) + "\n"
}

// proofCases collects cases.
type proofCases struct {
	all []proofCase

	log, other, w1, w2 proofKey // other is another key of the log
	l                  proofLog // of the event proofEvent, as the 4th of 7
	signed, cosigned   string   // its checkpoint
	good               string   // its proof
	path               []string
	keys, witnessed    proofKeys
}

func (c *proofCases) add(name, proof string, keys proofKeys, want proofWant) {
	c.all = append(c.all, proofCase{Name: name, Proof: proof, Keys: keys, Want: want})
}

// reject adds a case that is not proved.
func (c *proofCases) reject(reason, name, proof string, keys proofKeys) {
	c.add(name, proof, keys, proofWant{Reason: reason})
}

func proved(l proofLog, witnesses ...proofSeen) proofWant {
	return proofWant{Event: json.RawMessage(proofEvent), Origin: proofOrigin, Size: l.size, Index: l.index,
		RecordedAt: proofTime, Witnesses: witnesses}
}

var update = flag.Bool("update", false, "write the file")

// TestProofCasesAreUpToDate makes the cases with packages that the SDKs do not use, and compares
// the file or writes it.
func TestProofCasesAreUpToDate(t *testing.T) {
	c := proofCases{
		log: newProofKey(proofOrigin, 1, "l"), other: newProofKey(proofOrigin, 1, "o"),
		w1: newProofKey("witness.example/w1", 4, "1"), w2: newProofKey("witness.example/w2", 4, "2"),
	}
	for _, k := range []proofKey{c.log, c.other} { // another implementation reads them
		_, err := note.NewVerifier(k.public())
		require.NoError(t, err)
	}
	c.keys = proofKeys{Log: []string{c.log.public()}}
	c.witnessed = proofKeys{Log: []string{c.other.public(), c.log.public()},
		Witnesses: []string{c.w1.public(), c.w2.public()}}
	c.l = newProofLog(7, 3, leafOf(proofEvent))
	c.path = c.l.path
	c.signed = c.l.text() + "\n" + c.log.line(c.l.text())
	c.cosigned = c.signed + c.w1.line(c.l.text()) + c.w2.line(c.l.text())
	c.good = c.l.proof(c.cosigned)
	c.valid()
	c.otherLeaves()
	c.otherPaths()
	c.otherSignatures()
	c.otherCosignatures()
	c.malformedKeys()
	c.malformedProofs()
	const file = "../conformance/proofs/cases.json"
	want, err := encodeCases(c.all)
	require.NoError(t, err)
	if *update {
		require.NoError(t, os.WriteFile(file, []byte(want), 0o600))
	}
	got, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, want, string(got), "outdated: run make generate")
}

// valid adds proofs of logs of many sizes, with and without witnesses.
func (c *proofCases) valid() {
	logs := []proofLog{newDeepLog(20, leafOf(proofEvent))}
	for _, at := range [][2]int64{{1, 0}, {2, 0}, {2, 1}, {3, 2}, {7, 3}, {7, 6}, {8, 7}, {1000, 999}, {1000, 512}} {
		logs = append(logs, newProofLog(at[0], at[1], leafOf(proofEvent)))
	}
	for _, l := range logs {
		name := fmt.Sprintf("event %d of %d", l.index, l.size)
		c.add(name, l.proof(l.text()+"\n"+c.log.line(l.text())), c.keys, proved(l))
	}
	seen := []proofSeen{{c.w1.name, "2026-11-20T09:31:00Z"}, {c.w2.name, "2026-11-20T09:31:00Z"}}
	c.add("two witnesses, and a key of the log that did not sign", c.good, c.witnessed, proved(c.l, seen...))
	c.add("witnesses of whom the reader knows none", c.good, c.keys, proved(c.l))
	one := proofKeys{Log: c.keys.Log, Witnesses: c.witnessed.Witnesses, Quorum: 1}
	unknown := "— witness.example/mldsa " + base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{7}, 2432)) + "\n"
	c.add("signatures of unknown kinds are ignored", c.l.proof(c.signed+unknown+c.w2.line(c.l.text())), one,
		proved(c.l, seen[1]))
	twice := c.w1.line(c.l.text()) + c.w1.lineAt(c.l.text(), seenAt+60)
	c.add("a witness that signed twice counts once", c.l.proof(c.signed+twice), one, proved(c.l, seen[0]))
	c.add("two keys of the log signed", c.l.proof(c.signed+c.other.line(c.l.text())), c.witnessed.without(),
		proved(c.l))
}

func (k proofKeys) without() proofKeys { return proofKeys{Log: k.Log} }

// otherLeaves adds proofs whose event is not the recorded one, and logs that have recorded
// something else than events.
func (c *proofCases) otherLeaves() {
	for name, change := range map[string][2]string{
		"note": {"<visite>", "<visita>"}, "fact": {`"remote":true`, `"remote":false`},
		"record":         {"odin-works", "odin-work"},
		"removed member": {`"outcome":"verified",`, ""}, "time of the check": {"09:00:00.12Z", "09:00:00.120Z"},
		"source":       {"c=2", "c=3"},
		"added member": {`"slug"`, `"z":1,"slug"`}, "null for a fact": {`"remote":true`, `"remote":null`},
		"composed character": {"Première", "Premie\u0300re"},
		"white space":        {`"remote":true`, `"remote": true`}, "time of recording": {"09:30", "09:29"},
		"private part": {"abab", "abac"}, "everything": {c.l.leaf, ""},
	} {
		changed := c.l
		changed.leaf = strings.Replace(c.l.leaf, change[0], change[1], 1)
		c.reject("not_included", "changed event: "+name, changed.proof(c.cosigned), c.witnessed)
	}
	good := leafOf(proofEvent)
	for name, leaf := range map[string]string{
		"not JSON": "{", "an array": "[]", "null": "null", "empty": "",
		"no event": strings.Replace(good, `"event"`, `"Event"`, 1), "event is a list": leafOf("[]"),
		"event is null": leafOf("null"), "event is a text": leafOf(`"x"`),
		"no time of recording":              strings.Replace(good, "recordedAt", "recorded", 1),
		"time of recording is none":         strings.Replace(good, "T09:30", " 09:30", 1),
		"time of recording in another zone": strings.Replace(good, `456Z"}`, `456+00:00"}`, 1),
		"no such day":                       strings.Replace(good, "2026-11-20T09:30", "2026-02-30T09:30", 1),
		"time of recording is a number":     strings.Replace(good, `"`+proofTime+`"`, "1", 1),
		"not UTF-8":                         strings.Replace(good, "odin-works", "\xff", 1),
		"byte order mark":                   "\ufeff" + good,
		"a number that JSON lacks":          leafOf(`{"a":NaN}`),
	} {
		l := newProofLog(7, 3, leaf)
		c.reject("malformed_event", "recorded event: "+name, l.proof(l.text()+"\n"+c.log.line(l.text())), c.keys)
	}
}

// otherPaths adds proofs whose hashes or index do not lead to the root.
func (c *proofCases) otherPaths() {
	p := c.path
	flipped := []byte(p[1])
	flipped[3] ^= 1
	for name, change := range map[string]func(l *proofLog){
		"other index":     func(l *proofLog) { l.index = 2 },
		"index too large": func(l *proofLog) { l.index = 7 },
		"index of 2^52":   func(l *proofLog) { l.index = 1 << 52 },
		"hash dropped":    func(l *proofLog) { l.path = p[:2] },
		"hash added":      func(l *proofLog) { l.path = append(p[:3:3], p[0]) },
		"hash in front":   func(l *proofLog) { l.path = append([]string{p[0]}, p...) },
		"hash repeated":   func(l *proofLog) { l.path = []string{p[0], p[0], p[2]} },
		"hash changed":    func(l *proofLog) { l.path = []string{p[0], string(flipped), p[2]} },
		"hashes swapped":  func(l *proofLog) { l.path = []string{p[1], p[0], p[2]} },
		"no hashes":       func(l *proofLog) { l.path = nil },
	} {
		changed := c.l
		change(&changed)
		c.reject("not_included", "forged path: "+name, changed.proof(c.cosigned), c.witnessed)
	}
	empty := proofLog{size: 0}
	c.reject("not_included", "empty log", empty.proof(empty.text()+"\n"+c.log.line(empty.text())), c.keys)
}

// otherSignatures adds proofs that no given key of the log has signed.
func (c *proofCases) otherSignatures() {
	text := c.l.text()
	renamed := strings.Replace(text, proofOrigin, "evil.example/log", 1)
	stranger := newProofKey("other.example/log", 1, "l")
	c.reject("unknown_log", "signature of another key", c.l.proof(text+"\n"+c.other.line(text)), c.keys)
	c.reject("unknown_log", "key of another log", c.good, proofKeys{Log: []string{stranger.public()}})
	c.reject("unknown_log", "known key under another origin", c.l.proof(renamed+"\n"+c.log.line(renamed)), c.keys)
	c.reject("unknown_log", "known key that signs in the name of another", c.l.proof(text+"\n"+stranger.line(text)),
		proofKeys{Log: []string{stranger.public()}})
	c.reject("unknown_log", "no keys", c.good, proofKeys{Log: []string{}})
	larger := strings.Replace(text, "\n7\n", "\n8\n", 1)
	c.reject("invalid_signature", "changed size", c.l.proof(larger+"\n"+c.log.line(text)), c.keys)
	flipped := c.log.line(text)
	flipped = strings.Replace(flipped, flipped[len(flipped)-12:len(flipped)-8], "AAAA", 1)
	c.reject("invalid_signature", "changed signature", c.l.proof(text+"\n"+flipped), c.keys)
	c.reject("invalid_signature", "a valid and a changed signature of one key", c.l.proof(c.signed+flipped), c.keys)
	c.reject("invalid_signature", "signature that is too short", c.l.proof(text+"\n"+c.log.lineOf(make([]byte, 63))),
		c.keys)
}

// otherCosignatures adds proofs that the given witnesses have not cosigned.
func (c *proofCases) otherCosignatures() {
	text := c.l.text()
	w1 := proofKeys{Log: c.keys.Log, Witnesses: []string{c.w1.public()}}
	larger := strings.Replace(text, "\n7\n", "\n8\n", 1)
	later := []byte(c.w1.line(text))
	later[len("— witness.example/w1 ")+14]++ // within the seconds
	c.reject("invalid_signature", "cosignature of another text", c.l.proof(c.signed+c.w1.line(larger)), w1)
	c.reject("invalid_signature", "cosignature with another time", c.l.proof(c.signed+string(later)), w1)
	c.reject("invalid_signature", "cosignature without a time",
		c.l.proof(c.signed+c.w1.lineOf(ed25519.Sign(c.w1.key, []byte(text)))), w1)
	for _, seconds := range []uint64{253402300800, 1 << 53, 1<<64 - 1} { // from the year 10000
		c.reject("invalid_signature", fmt.Sprintf("cosignature at second %d", seconds),
			c.l.proof(c.signed+c.w1.lineAt(text, seconds)), w1)
	}
	c.reject("invalid_signature", "a valid and a changed cosignature of one witness",
		c.l.proof(c.cosigned+string(later)), w1)
	c.reject("not_witnessed", "one witness of two", c.l.proof(c.signed+c.w1.line(text)), c.witnessed)
	c.reject("not_witnessed", "one witness of two, twice",
		c.l.proof(c.signed+c.w1.line(text)+c.w1.lineAt(text, seenAt+60)), c.witnessed)
	renamed := newProofKey(c.w1.name, 4, "x")
	c.reject("not_witnessed", "cosignature by another key with the name of the witness",
		c.l.proof(c.signed+renamed.line(text)), w1)
}

// malformedKeys adds keys that are none.
func (c *proofCases) malformedKeys() {
	public := c.log.public()
	for name, key := range map[string]string{
		"empty": "", "no base64": "a+00000000+!", "wrong id": strings.Replace(public, "+", "+0", 1),
		"witness key": c.w1.public(),
		"short":       "a+00000000+AQ==", "no name": strings.TrimPrefix(public, proofOrigin),
		"line feed": public + "\n",
	} {
		c.reject("malformed_key", "malformed key: "+name, c.good, proofKeys{Log: []string{key}})
	}
	again := newProofKey("witness.example/again", 4, "1")
	for name, keys := range map[string]proofKeys{
		"log key as witness":         {Witnesses: []string{public}},
		"witness twice":              {Witnesses: []string{c.w1.public(), c.w1.public()}},
		"witness under two names":    {Witnesses: []string{c.w1.public(), again.public()}},
		"quorum below 0":             {Witnesses: c.witnessed.Witnesses, Quorum: -1},
		"quorum above the witnesses": {Witnesses: c.witnessed.Witnesses, Quorum: 3},
	} {
		keys.Log = c.keys.Log
		c.reject("malformed_key", "malformed key: "+name, c.good, keys)
	}
}

// malformedProofs adds texts that are no proof.
func (c *proofCases) malformedProofs() {
	good, path, l, text := c.good, c.path, c.l, c.l.text()
	extended := text + "extension\n"
	for name, proof := range map[string]string{
		"empty": "", "other version": strings.Replace(good, "@v1", "@v2", 1),
		"no extra":                    strings.Replace(good, "extra ", "", 1),
		"extra is not base64":         strings.Replace(good, "extra e", "extra !", 1),
		"extra line twice":            strings.Replace(good, "index", strings.Split(good, "\n")[1]+"\nindex", 1),
		"index with a leading zero":   strings.Replace(good, "index 3", "index 03", 1),
		"index with a sign":           strings.Replace(good, "index 3", "index +3", 1),
		"no index":                    strings.Replace(good, "index 3\n", "", 1),
		"index beyond 2^53":           strings.Replace(good, "index 3", "index 9007199254740993", 1),
		"index in other digits":       strings.Replace(good, "index 3", "index ٣", 1),
		"short hash":                  strings.Replace(good, path[0], path[0][:40], 1),
		"hash with spaces":            strings.Replace(good, path[0], path[0]+" ", 1),
		"hash with a carriage return": strings.Replace(good, path[0], path[0]+"\r", 1),
		"loose base64":                strings.Replace(good, path[0], path[0][:42]+"_=", 1),
		"base64 with loose bits":      strings.Replace(good, path[0], path[0][:42]+string(path[0][42]+1)+"=", 1),
		"no checkpoint":               strings.Split(good, "\n\n")[0] + "\n",
		"64 hashes":                   strings.Replace(good, path[0], strings.Repeat(path[0]+"\n", 61)+path[0], 1),
		"extension line":              l.proof(extended + "\n" + c.log.line(extended)),
		"no signatures":               l.proof(text + "\n"),
		"no line feed at the end":     strings.TrimSuffix(good, "\n"), "trailing text": good + "x\n",
		"empty line at the end":    good + "\n",
		"carriage returns":         strings.ReplaceAll(good, "\n", "\r\n"),
		"hyphen as dash":           strings.ReplaceAll(good, "— ", "- "),
		"tab in a signature":       strings.Replace(good, "w1 ", "w1\t", 1),
		"signature without a name": strings.Replace(good, "— witness.example/w1 ", "—  ", 1),
		"no root":                  strings.Replace(good, l.root.String(), "", 1),
		"size is hexadecimal":      strings.Replace(good, "\n7\n", "\n0x7\n", 1),
		"no origin":                strings.Replace(good, "\n"+proofOrigin+"\n", "\n\n", 1),
		"byte order mark":          "\ufeff" + good,
		"line feed in front":       "\n" + good,
	} {
		c.reject("malformed_proof", "malformed proof: "+name, proof, c.witnessed)
	}
	c.reject("malformed_proof", "malformed proof: too large", good, c.witnessed)
	c.all[len(c.all)-1].Repeat = 1500
}

// encodeCases returns the cases ordered by name, each on its line.
func encodeCases(cases []proofCase) (string, error) {
	slices.SortFunc(cases, func(a, b proofCase) int { return strings.Compare(a.Name, b.Name) })
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	for i, c := range cases {
		out.WriteString(map[bool]string{true: "[\n", false: ","}[i == 0])
		if err := enc.Encode(c); err != nil {
			return "", err
		}
	}
	return out.String() + "]\n", nil
}
