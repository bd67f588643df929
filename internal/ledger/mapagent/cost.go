package mapagent

import (
	"time"

	"github.com/drover-run/drover/internal/ledger/protocol"
	"github.com/drover-run/drover/report"
)

// Estimate is about how many requests to an object store a map costs (E8): for its items
// and chunks, however long these take, and in each minute that its agents work. Of a
// chunk that is its claim, its results with its end, and the snapshot, and of short
// items as many flushes as an agent's risk asks for; its log is read to its end twice,
// listings say which are there, and agents come and go. In a
// minute an agent writes its heartbeats and flushes what has ended of the chunks it
// holds, looks at the job as often as it is alive, and at its chunks: are they still
// its own, is any agent idle. TestScale holds it against whole jobs.
func Estimate(items, chunks, agents int) (whole, minute report.Requests) {
	beats := int(time.Minute / protocol.HeartbeatEvery)
	flushes := agents * int(time.Minute) / int(FarPace(agents).flush)
	whole = report.Requests{Writes: 3*chunks + items/riskLeast + 4*agents + 8, Lists: 8*agents + 8, Reads: 4*chunks + 12*agents + 8}
	minute = report.Requests{Writes: agents*beats + 3*flushes/2, Reads: agents*2*beats + 3*flushes}
	if agents <= FewAgents { // each looks at the others
		minute.Lists, minute.Reads = agents*beats, minute.Reads+agents*(agents-1)*beats
		return whole, minute
	}
	// Of many, scanners and standbys list the agents, a thousand in a request, and read
	// on in all chunks.
	spares := max(StandbysLeast, agents/standbysEach)
	minute.Lists = int(time.Minute/ListMembersEvery) * 2 * spares * ((agents + 999) / 1000)
	minute.Reads += int(time.Minute) * chunks / int(scanEvery)
	return whole, minute
}
