package ledger

import (
	"fmt"
	"os"
	"os/exec"
	"testing"
	"time"
)

// testedMutant is a mutant that no promise of the protocol forbids, or that needs what a
// world does not have: a test of its own notices it.
type testedMutant struct {
	mutant
	pkg  string // of the test, from the module's root
	test string
}

const (
	ledgerTests    = "internal/ledger"
	runnerTests    = "internal/agent/maprunner"
	agentTests     = "internal/agent"
	engineTests    = "internal/engine/gc"
	s3Tests        = "store/s3"
	gcsTests       = "store/gcs"
	itemsTests     = "internal/items/manifest"
	kubeTests      = "driver/kube"
	batchTests     = "driver/batch"
	sagemakerTests = "driver/sagemaker"
	ec2Tests       = "driver/ec2"
	gcpTests       = "driver/gcpbatch"
)

var testedMutants = []testedMutant{
	{mutant{"L1*", "a claim that was given up is looked after once", claimFile,
		"if u.Chunk.N > u.N {", "if u.Chunk != nil {"}, ledgerTests, "TestAClaimThatWasGivenUpIsLookedAfterUntilItLands"},
	{mutant{"L1*", "a claim that was given up and settled keeps others waiting", claimFile,
		"if u.Chunk.N > u.N {", "if u.Chunk.N == u.N {\n\t\t\treturn nil, nil\n\t\t}\n\t\tif u.Chunk.N < 0 {"}, ledgerTests, "TestAClaimThatCannotLandYetKeepsNoOtherWaiting"},
	{mutant{"M8", "what was handed over is forgotten", "internal/ledger/mapagent/handoff.go",
		"m.handedOver = append(m.handedOver, c)", "m.handedOver = m.handedOver[:0]"}, ledgerTests, "TestAnOwnerComesBackToWhatItHandedOver"},
	{mutant{"M11", "the first agent takes it all", claimFile,
		"m.claims++\n", "m.claims += 100\n"}, ledgerTests, "TestTheFirstAgentLeavesTheOthersTheirShare"},
	{mutant{"M12*", "who leaves does not look whether the standbys are still there", maprollFile,
		"if left, err := m.hasLeft(ctx, id); err != nil {\n\t\t\treturn false, err\n\t\t} else if left {\n\t\t\tm.Members.Known = false", "if left, err := m.hasLeft(ctx, id); err != nil {\n\t\t\treturn false, err\n\t\t} else if left && id == \"\" {\n\t\t\tm.Members.Known = false"}, ledgerTests, "TestNobodyLeavesAJobToWhoIsGone"},
	{mutant{"E6", "the deadline moves on though the job was removed: as it was", recordFile,
		"h.Over, h.outcome = true, Fenced\n\tcase err != nil:\n\t\treturn err", "h.lastRead = sent\n\tcase err != nil:\n\t\treturn err"}, ledgerTests, "TestNothingBeginsOnceItsJobWasRemoved"},
	{mutant{"E1", "a failing counts after a cancel", mapFile,
		"case e.Failing != nil && live:", "case e.Failing != nil && m.Settled == nil:"}, ledgerTests, "TestWhatCountsInAMapsLog"},
	{mutant{"M4*", "failures of the round before count in this one", chunkFile,
		"c.Old = c.Tally.Failed + c.Tally.Quarantined", "c.Old = 0"}, ledgerTests, "TestFailuresThatAreNotRunAgainAreOld"},
	{mutant{"M7", "a chunk may have 40,960 items", mapFile,
		"min(4096, (items", "min(40960, (items"}, ledgerTests, "TestSizesOfChunks"},
	{mutant{"M8", "all that waits is handed over", shareFile,
		"part := slices.Clone(h.Queue[len(h.Queue)-share:])", "part := slices.Clone(h.Queue[min(0, share):])"}, ledgerTests, "TestWhatIsHandedOverIsWorthAChunk"},
	{mutant{"M13", "an item may be interrupted for ever", chunkFile,
		"if had.Interruptions > MaxItemInterruptions {", "if had.Interruptions > 100*MaxItemInterruptions {"}, ledgerTests, "TestInterruptionsAreFreeTwentyTimes"},
	{mutant{"E1", "too many failures of its own do not stop an agent", mapmemberFile,
		"return m.room < 0 &&", "return m.room < -1000 &&"}, ledgerTests, "TestNothingBeginsOnceTooManyHaveFailed"},
	{mutant{"R7", "an agent looks at the log again after four times as long", memberFile,
		"return max(0, protocol.Poll-(m.w", "return max(0, 10*protocol.Poll-(m.w"}, ledgerTests, "TestAnAgentOfARunLooksAgainSoon"},
	{mutant{"E7", "an agent does not look again at what it has named and begins with", "internal/ledger/states/state.go",
		"} else if !whole {", "} else if !whole && false {"}, ledgerTests, "TestWhatIsTornOnceItIsNamedIsNotOffered"},
	{mutant{"E7", "gc forgets what an agent begins with", "internal/engine/gc/names.go",
		"range t.Restoring[rank].Lists() {", "range t.Restoring[rank].Lists()[:0] {"}, engineTests, "TestGCKeepsWhatAnAgentBeginsWith"},
	{mutant{"T1", "a job is closed that is not the live one", taskFile,
		"if FoldTask(l.Entries).Live != p.Job {\n\t\t\treturn nil\n\t\t}\n\t\tif closed", "if FoldTask(l.Entries).Live == \"\" {\n\t\t\treturn nil\n\t\t}\n\t\tif closed"}, ledgerTests, "TestAJobIsClosedOnce"},
	{mutant{"K2", "placements that came to nothing need not be in a row", keeperFile,
		"k.failedPlacements = 0\n", "k.failedPlacements += 0\n"}, ledgerTests, "TestPlacementsThatCameToNothingAreCountedInARow"},
	{mutant{"K2", "a machine with a new agent counts as dead, as the agent before it does", keeperFile,
		"(heard[at] || !silent[at])", "!silent[at]"}, ledgerTests, "TestAMachineWorksThatHasANewAgent"},
	{mutant{"K2", "a machine works for ever that once had an agent", keeperFile,
		"(heard[at] || !silent[at])", "(heard[at] || !silent[at] || len(silent) > 0)"}, ledgerTests, "TestAMachineWorksThatHasANewAgent"},
	{mutant{"M1", "items of a chunk that another has claimed run on", "internal/agent/maprunner/orders.go",
		"c.dispatch.killTries(func(t *try) bool { return t.chunk == w })", "_ = w"}, runnerTests, "TestItemsOfAChunkThatAnotherHasClaimedAreEnded"},
	{mutant{"M5*", "a runner may begin items for an hour", "internal/agent/maprunner/groups.go",
		"g.executor.Until(least - s.bootTime())", "g.executor.Until(least - s.bootTime() + 3600e9)"}, runnerTests, "TestNothingBeginsAfterTheStartDeadlineOfItsChunk"},
	{mutant{"M6*", "an output that changed while it was stored counts", "internal/agent/maprunner/upload/upload.go",
		"sizeChanged(f, one.Size) || err == nil && n != one.Size {", "sizeChanged(f, one.Size) && n < 0 {"}, runnerTests, "TestAnOutputThatChangesWhileItIsStoredFailsItsItem"},
	{mutant{"M6*", "a digest is of what was sent, though the store has other bytes", "internal/agent/maprunner/upload/upload.go",
		"if body.ended { // all of it", "if body.ended || body.n > 0 { // all of it"}, runnerTests, "TestADigestIsOfWhatTheStoreHolds"},
	{mutant{"E6", "outputs are not named before the exit", "internal/agent/save.go",
		"if err := removal.NameOutputs(ctx, o.World, o.Path, attempt, rank, o.ID, exit.Outputs); err != nil {", "if err := error(nil); rank < 0 && err != nil {"}, agentTests, "TestOutputsAreNamedBeforeTheExit"},
	{mutant{"E6", "gc is not looked for after outputs are named", "internal/agent/save.go",
		"return need, nil }, func(ctx context.Context, _ []store.Digest) error {", "return nil, nil }, func(ctx context.Context, _ []store.Digest) error {"}, agentTests, "TestWhatGCTookBeforeOutputsWereNamedIsStoredAgain"},
	{mutant{"E6", "gc looks at a settled map once", "internal/ledger/removal/census.go",
		"&& j.Job.Spec.Verb != job.Map\n", "&& j != nil\n"}, ledgerTests, "TestACensusLooksAtASettledMapAgain"},
	{mutant{"L1*", "409 says that it exists", "store/s3/errors.go",
		"case a.Code == \"ConditionalRequestConflict\",", "case write && a.Code == \"ConditionalRequestConflict\":\n\t\treturn fmt.Errorf(\"%s: %w\", doing, store.ErrExists)\n\tcase"}, s3Tests, "TestAnAnswerThatSettlesNothingIsUnclear"},
	{mutant{"L1*", "a lost reply to a write is busy, not unclear", "store/s3/errors.go",
		"unclear = store.ErrUnclear\n", "unclear = store.ErrBusy\n"}, s3Tests, "TestAnAnswerThatSettlesNothingIsUnclear"},
	{mutant{"L1*", "an agent whose own join stands there from a request it gave up takes another rank", memberFile,
		"if mine || there.Agent == m.ID {", "if mine {"}, ledgerTests, "TestAnAgentTakesUpAJoinThatItGaveUp"},
	{mutant{"L1*", "a join that was given up, and was read, is nobody's: as it was", memberFile,
		"\t\tif there.Agent == m.ID {", "\t\tif there.Agent == \"\" {"}, ledgerTests, "TestAnAgentTakesUpAJoinThatItGaveUp"},
	{mutant{"T1", "a submit withdraws job.json after an unclear answer too", taskFile,
		"if !errors.Is(err, store.ErrUnclear) { // then", "if err != nil { // then"}, ledgerTests, "TestAJobWhoseSubmitWasGivenUpHasItsRecord"},
	{mutant{"M5*", "a read renews the start deadline from its answer", chartFile,
		"return sent, nil", "return t.Now(), nil"}, ledgerTests, "TestTheStartDeadlineCountsFromTheQuestion"},
	{mutant{"V1", "a snapshot is taken for the whole part though items of it were handed over", "internal/ledger/views/mapparts.go",
		"if p.Seal == \"\" || b.Children > 0 ||", "if p.Seal == \"\" ||"}, ledgerTests, "TestASnapshotIsNotAllOfAChunkThatHandedItemsOver"},
	{mutant{"M12*", "a membership listing of the round before is compared with one of this round", maprollFile,
		" && m.Members.round == m.Inventory.Map.Round\n\there", "\n\there"}, ledgerTests, "TestAMembershipListingIsOfOneRound"},
	{mutant{"E5", "the job's log is looked at every minute", "internal/agent/maprunner/orders.go",
		"c.nextPoll = c.bootTime() + farPoll", "c.nextPoll = c.bootTime() + 4*farPoll"}, runnerTests, "TestTheJobsLogIsLookedAtInTime"},
	{mutant{"E6", "a submit that is young by the store's clock is removed", "internal/engine/gc/collect.go",
		"!c.g.options.unfinished(j, c.now) {", "!c.g.options.unfinished(j, c.now) && c == nil {"}, engineTests, "TestASubmitThatIsYoungByTheStoresClockStays"},
	{mutant{"L1*", "an upload that is no longer known was certainly not written", "store/s3/errors.go",
		" a.Code == \"NoSuchUpload\",", ""}, s3Tests, "TestAnUploadThatIsNotKnownAnyMoreMayHaveLanded"},
	{mutant{"L6", "a listing that breaks off calls itself whole", "store/gcs/list.go",
		"return found, true, nil // the next", "return found, false, nil // the next"}, gcsTests, "TestAListingThatBreaksOffSaysThatThereIsMore"},
	{mutant{"M1", "who holds a chunk that another ended claims one beside what it runs", claimFile,
		"return h.Over })", "return h.Over && h.outcome == Fenced })"}, ledgerTests, "TestNothingIsClaimedBesideItemsOfAChunkThatWasEnded"},
	{mutant{"M6*", "an escape at the end of a name is not told from the byte it stands for", "internal/ledger/protocol/mapout.go",
		"!(i+2 < len(e) && isHex", "!(i+3 < len(e) && isHex"}, "internal/ledger/protocol", "TestAnyNameOfAnOutputHasAKeyOfItsOwn"},
	{mutant{"M8", "a chunk waits for the back-off of its first item", shareFile,
		"wait = max(wait, at-now)", "wait = min(max(wait, at-now), h.later[sortedItems(h.later)[0]]-now)"}, ledgerTests, "TestAChunkWaitsForTheLongestBackOff"},
	{mutant{"M11", "pages with free chunks count as pages without", mapfindFile,
		"f.free, f.empty = slices.Concat(free[at:], free[:at], f.free), 0", "f.free = slices.Concat(free[at:], free[:at], f.free)"}, ledgerTests, "TestAPageWithAFreeChunkIsNoMiss"},
	{mutant{"M12*", "the number of standbys follows those that are left", maprollFile,
		"return max(StandbysLeast, m.Members.most/standbysEach) }", "return max(StandbysLeast, len(m.Members.Moved)/standbysEach) }"}, ledgerTests, "TestStandbysStayWhileOthersLeave"},
	{mutant{"R7", "the wait for the next look counts from now", memberFile,
		"return max(0, protocol.Poll-(m.w.Clock().Boot()-m.looked))", "return protocol.Poll"}, ledgerTests, "TestAnAgentOfARunLooksAgainSoon"},
	{mutant{"E5", "an agent of many ends its share after the first stop alone", maptendFile,
		"m.shared != f.StopAt:", "m.shared == 0:"}, ledgerTests, "TestEachStopHasItsShares"},
	{mutant{"R3*", "a command line opens an attempt after a person's stop", keeperFile,
		"step.Open.K > 1 && step.Open.Cause != protocol.Asked:", "step.Open.K > 1:"}, ledgerTests, "TestACommandLineOpensNoAttemptAfterAPersonsStop"},
	{mutant{"K1", "a cancelled job whose agents a person stopped is left to others", keeperFile,
		"return by > k.asked && k.run.Stop == nil", "return by > k.asked"}, ledgerTests, "TestAStoppedJobIsSettledThoughItsAgentsWereInterrupted"},
	{mutant{"K2", "a placement on which drover failed counts as one that came to something", keeperFile,
		"if taken || k.joined[n] && !broke {", "if taken || k.joined[n] {"}, ledgerTests, "TestPlacementsOnWhichDroverFailsAreCounted"},
	{mutant{"E8", "the idle flag is asked for each time", "internal/ledger/mapagent/idle.go",
		"m.IdleFlagSeen = err == nil\n\treturn m.IdleFlagSeen, ", "return err == nil, "}, ledgerTests, "TestTheIdleFlagIsAskedForOnce"},
	{mutant{"L4", "the item that starts takes effect before the results of its entry", chunkFile,
		"\tok = len(counted) == len(e.Results)\n", "\tok = len(counted) == len(e.Results)\n\tfor _, r := range counted {\n\t\te.Starting = slices.DeleteFunc(slices.Clone(e.Starting), func(item int) bool { return item == r.Item })\n\t}\n"}, ledgerTests, "TestAnItemThatStartsAgainInOneEntryIsBlamed"},
	{mutant{"T3", "a submit looks for its settings in the task's log before its first try alone", taskFile,
		"\tfor {\n\t\tt := FoldTask(l.Entries)\n\t\tif _, ours := t.PlaceOf(j.ID); ours { // it may have ended since, if we slept\n\t\t\treturn j.ID, true, nil\n\t\t}\n\t\tif _, gone := t.Gone[j.ID]; gone {\n\t\t\treturn \"\", false, errors.Join(abandoned(j), withdrawJob(ctx, w, j))\n\t\t}\n\t\tif _, elsewhere := t.Beside[j.SettingsKey]; elsewhere",
		"\t_, elsewhere := FoldTask(l.Entries).Beside[j.SettingsKey]\n\tfor {\n\t\tt := FoldTask(l.Entries)\n\t\tif _, ours := t.PlaceOf(j.ID); ours { // it may have ended since, if we slept\n\t\t\treturn j.ID, true, nil\n\t\t}\n\t\tif _, gone := t.Gone[j.ID]; gone {\n\t\t\treturn \"\", false, errors.Join(abandoned(j), withdrawJob(ctx, w, j))\n\t\t}\n\t\tif elsewhere"}, ledgerTests, "TestSettingsOfAnotherTaskAreNotSubmitted"},
	{mutant{"M14", "a list that equals the items that were added last is compared with these alone", "internal/items/manifest/fresh.go",
		"if len(old) != 1 || old[0].m.Digest != l.digest {", "if len(old) == 0 || old[len(old)-1].m.Digest != l.digest {"}, itemsTests, "TestTheListThatWasAddedLastLacksTheRest"},
	{mutant{"R9", "a generation whose checkpoints miss a blob is left out of the shared state", "internal/ledger/states/shared.go",
		"s, err := foldShared(logs, stateAlone(complete))\n\t\tif", "s, err := foldShared(logs, complete)\n\t\tif"}, ledgerTests, "TestAStateThatMissesABlobIsNotOffered"},
	{mutant{"L4", "an amend counts beside a reopen that does not", mapFile,
		"case e.Amended != nil && ok:", "case e.Amended != nil:"}, ledgerTests, "TestARoundThatDoesNotCountAmendsNothing"},
	{mutant{"T3", "what was said of settings holds while the job beside which it was said is live", taskFile,
		"if name, ok := t.Beside[key]; ok {\n\t\t\treturn name", "if name, ok := t.Beside[key]; ok && t.Live == live {\n\t\t\treturn name"}, ledgerTests, "TestSettingsOfAnotherTaskAreNotSubmitted"},
	{mutant{"J2", "the settings that bind have the time limit that the job began with", mapFile,
		"m.Limits(), job.Duration(m.ItemTimeout()), m.Retries()", "m.Limits(), m.Spec.ItemTimeout, m.Retries()"}, ledgerTests, "TestTheSettingsThatBindAreThoseOfTheNewestAmend"},
	{mutant{"M9", "the entry that ends a chunk takes results along whatever their size", holdFile,
		" && 8*h.bytes < 9*flushBytes", ""}, ledgerTests, "TestTheEndOfAChunkTakesAnEighthMore"},
	{mutant{"M13", "the number of a try does not count interruptions", holdFile,
		"N: 1 + h.failuresOf(item) + had.Interruptions + had.Blames", "N: 1 + h.failuresOf(item) + had.Blames"}, ledgerTests, "TestATryIsNumberedAfterAllBeforeIt"},
	{mutant{"driver", "a Job of the same name that is not drover's is taken for the placement", "driver/kube/start.go",
		"!ok || h != p.handle {", "!ok && h == p.handle {"}, kubeTests, "TestWhatIsNotDroversIsLeft"},
	{mutant{"driver", "a Start that finds its Job makes nothing that is missing", "driver/kube/start.go",
		"	j, err := d.ensureJob(ctx, c, s, p)\n\tif err == nil {", "	j, err := d.ensureJob(ctx, c, s, p)\n\tif err == nil && len(d.views) > 0 {"}, kubeTests, "TestAStartThatWasCutOffIsCompleted"},
	{mutant{"driver", "the second placement does not own the program", "driver/kube/program/program.go",
		"err := c.AddOwner(ctx, api.ConfigMaps, namespace, p.name(), owner)\n\t\tif !api", "err := error(nil)\n\t\tif !api"}, kubeTests, "TestTheProgramIsStoredOnceForANamespace"},
	{mutant{"driver", "a newer credential is not handed over", "driver/kube/start.go",
		"api.IsCode(err, http.StatusConflict) && credential != nil {", "api.IsCode(err, http.StatusConflict) && credential == nil {"}, kubeTests, "TestANewerCredentialIsHandedOver"},
	{mutant{"driver", "the longer of two Stops stands", "driver/kube/stop.go",
		"err == nil && before <= grace {", "err == nil && before < 0 {"}, kubeTests, "TestTheShorterOfTwoStopsStands"},
	{mutant{"driver", "an agent's number leaves out what its controller did not count as failures", "driver/kube/view.go",
		"return failed + ignored, ignored", "return failed, ignored"}, kubeTests, "TestEachPodOfAnIndexIsAnAgentOfItsOwn"},
	{mutant{"driver", "of two pods with one number the older stands", "driver/kube/view.go",
		"return a.Metadata.CreationTimestamp.Compare(b.Metadata.CreationTimestamp) })", "return b.Metadata.CreationTimestamp.Compare(a.Metadata.CreationTimestamp) })"}, kubeTests, "TestEachPodOfAnIndexIsAnAgentOfItsOwn"},
	{mutant{"driver", "an agent of an evicted pod has ended by itself", "driver/kube/judge.go",
		"	case isTaken:\n\t\tm.State, m.Reason = driver.Taken, takenWords(taken)\n\tcase t.Reason", "	case t.Reason"}, kubeTests, "TestWhatKubernetesSaysOfAPodIsWhatItsAgentIs"},
	{mutant{"driver", "a pod that waits begins in spite of a Stop", "driver/kube/judge.go",
		"	if v.stop {\n\t\tm.State, m.Reason = driver.Ended, \"stopped before it began\"\n\t\treturn m\n\t}\n\tif v.gaveUp", "	if v.gaveUp"}, kubeTests, "TestWhatKubernetesSaysOfAPodIsWhatItsAgentIs"},
	{mutant{"driver", "a placement is given up of which an agent was up", "driver/kube/giveup.go",
		"if n > 0 || p.Status", "if n > 9 || p.Status"}, kubeTests, "TestAPlacementThatNeverComesUpIsGivenUp"},
	{mutant{"driver", "a place that does not answer counts as empty", "driver/kube/kube.go",
		"errors.Join(silent...)", "errors.Join(silent[:0]...)"}, kubeTests, "TestAPlaceThatDoesNotAnswerIsNamed"},
	{mutant{"driver", "a host that AWS takes away is a loss", "driver/batch/status.go",
		"case strings.HasPrefix(why, takenHost), strings.HasPrefix(why, takenTask), p.Code", "case strings.HasPrefix(why, takenTask), p.Code"}, batchTests, "TestWhatBatchSaysOfAnAttemptIsHowItEnded"},
	{mutant{"driver", "a submission without an answer is sent again", "cloud/amazon/sender.go",
		"a.Status == 0 && !Sent(err)", "a.Status == 0"}, batchTests, "TestASubmissionWithoutAnAnswerIsFound"},
	{mutant{"driver", "all definitions have one name", "driver/batch/definition.go",
		"sum := sha256.Sum256(text)", "sum := sha256.Sum256(text[:0])"}, batchTests, "TestADefinitionIsRegisteredOnceForAShape"},
	{mutant{"driver", "the attempt after a taken host has its number", "driver/batch/status.go",
		"Index: index, Attempt: n + 1}, Code: -1}", "Index: index, Attempt: max(n, 1)}, Code: -1}"}, batchTests, "TestEachAttemptOfAJobIsAProcess"},
	{mutant{"driver", "a job that another user has ended was ended by drover", "driver/batch/status.go",
		" && aws.ToString(j.StatusReason) == stopped", ""}, batchTests, "TestEachAttemptOfAJobIsAProcess"},
	{mutant{"driver", "secrets outlive their placement", "driver/batch/submit.go",
		"c.secrets.Remove(ctx, secretName(h))", "c.secrets.Remove(ctx, secretName(driver.Handle{}))"}, batchTests, "TestSecretsGoWithTheirPlacement"},
	{mutant{"driver", "a queue of the same name in another account is the job's", "driver/batch/offer.go",
		"at.account != \"\" && at.account", "at.account != \"\" && q.site.account"}, batchTests, "TestAnOfferSaysWhatAQueueHas"},
	{mutant{"driver", "a request holds a signed address", "driver/remote/fetch.go",
		"return d.Secret || d.Of == store.OfMachine }", "return d.Of == store.OfMachine }"}, batchTests, "TestAPlacementIsOneArrayOfOneDefinition"},
	{mutant{"driver", "the rights to secrets are needed by jobs without any", "cloud/amazon/secret/secret.go",
		" || a.Status == http.StatusForbidden {", " || a.Status < 0 && http.StatusOK > 0 {"}, batchTests, "TestARightThatIsLackingIsNamed"},
	{mutant{"driver", "a stack that drover did not make is taken away", "driver/stack/change.go",
		"if err != nil || !v.there() || !v.ours() {\n\t\treturn err\n\t}\n\tv, err = c.delete", "if err != nil || !v.there() {\n\t\treturn err\n\t}\n\tv, err = c.delete"}, batchTests, "TestTheSetupIsASetupOverAFake"},
	{mutant{"driver", "a set-up tells again of what was there", "driver/stack/change.go",
		"t.told = append(t.told, p.State == driver.PieceThere)", "t.told = append(t.told, p.State == \"\")"}, batchTests, "TestTheSetupIsASetupOverAFake"},
	{mutant{"driver", "a set-up forgets its options", "driver/batch/setup.go",
		"append(before, asked...)", "append(before[:0], asked...)"}, batchTests, "TestOptionsAreKeptWithTheStack"},
	{mutant{"driver", "the images of another set-up go with this one", "driver/stack/images.go",
		"i.at.Repositories(ctx, i.registry, i.name+\"/\")", "i.at.Repositories(ctx, i.registry, i.name)"}, batchTests, "TestRepositoriesOfImagesGoWithTheSetup"},
	{mutant{"driver", "a role that the user's definition names is not that of the offer", "driver/batch/amend.go",
		"s.options.jobRole = aws.ToString(in.ContainerProperties.JobRoleArn)", "_ = in.ContainerProperties.JobRoleArn"}, batchTests, "TestTheUsersFilesAmendRequests"},
	{mutant{"driver", "a queue goes with jobs of others in it", "driver/batch/setup.go",
		"if name != \"\" {\n\t\t\treturn fault", "if name == \"-\" {\n\t\t\treturn fault"}, batchTests, "TestAJobGetsTheQueueOfItsSetup"},
	{mutant{"driver", "compute environments count in the order of the answer", "driver/batch/offer.go",
		"return slices.Index(names, aws.ToString(a.ComputeEnvironmentArn)) - slices.Index(names, aws.ToString(b.ComputeEnvironmentArn))", "_ = a\n\t\t_ = b\n\t\treturn 0"}, batchTests, "TestAJobGetsTheQueueOfItsSetup"},
	{mutant{"driver", "an answer that is cut off is the last one", "cloud/amazon/answer.go",
		" || a.cutOff()\n}", "\n}"}, batchTests, "TestAnAnswerThatIsCutOffIsAskedForAgain"},
	{mutant{"EC2", "nodes that wait for missing ones move the end of their machines on", "driver/ec2/host.go",
		"err != nil || n < h.nodes {", "err != nil || n < 0 {"}, ec2Tests, "TestTheEndIsMovedOn"},
	{mutant{"driver", "a Start that AWS Batch refuses leaves its secret", "driver/batch/submit.go",
		"return len(s.Secrets) == 0 ||", "return true ||"}, batchTests, "TestARefusedStartLeavesNoSecret"},
	{mutant{"driver", "a Start that SageMaker refuses leaves its secret", "driver/sagemaker/submit.go",
		"return len(s.Secrets) == 0 ||", "return true ||"}, sagemakerTests, "TestARefusedStartLeavesNoSecret"},
	{mutant{"driver", "a job of another maker's counts as drover's", "driver/gcpbatch/submit.go",
		"if there.Labels[\"drover\"] != in.Labels[\"drover\"] || there", "if false && there"}, gcpTests, "TestAForeignJobIsSpared"},
	{mutant{"driver", "a Start that Google refuses leaves its secret", "driver/gcpbatch/submit.go",
		"return len(s.Secrets) == 0 ||", "return true ||"}, gcpTests, "TestWhatGoogleRefusesLeavesNothing"},
	{mutant{"driver", "a secret is in the request for a job", "driver/gcpbatch/request.go",
		"variables[variableSecret] = secretName(s.Handle)", "variables[variableSecret] = secretName(s.Handle)\n\t\tvariables[\"TOKEN\"] = s.Secrets[\"TOKEN\"]"}, gcpTests, "TestSecretsAreInSecretManagerAlone"},
	{mutant{"driver", "Google does not start again what was preempted", "driver/gcpbatch/request.go",
		"fault.ExitLater, codePreempted, codeNoReport", "fault.ExitLater, codeNoReport"}, gcpTests, "TestTheRequestIsAsItWasLookedAt"},
	{mutant{"driver", "a preempted machine is lost", "driver/gcpbatch/status.go",
		"case code == codePreempted:\n\t\tp.State", "case code == codePreempted:\n\t\tdefer func() { p.State = driver.Lost }()\n\t\tp.State"}, gcpTests, "TestWhatGoogleSaysOfTasks"},
	{mutant{"driver", "the successor of a preempted machine has its number", "driver/gcpbatch/adopt.go",
		"Attempt: before + retries + 1", "Attempt: before + 1"}, gcpTests, "TestATaskIsAnAgent"},
	{mutant{"driver", "the agents of a second job have the numbers of the first", "driver/gcpbatch/names.go",
		"first = (k - 1) * mostTasks", "first = 0 * k"}, gcpTests, "TestNamesAreReadAsTheyWereMade"},
	{mutant{"driver", "a job that a command did not come to make is never made", "driver/gcpbatch/status.go",
		"if living.Name == \"\" ||", "if living.Name != \"\" ||"}, gcpTests, "TestAJobThatWasNeverMadeIsMade"},
	{mutant{"driver", "a second job has all agents of the placement", "driver/gcpbatch/request.go",
		"count := min(mostTasks, agentsOf(in)-first)", "count := min(mostTasks, agentsOf(in))\n\t_ = first"}, gcpTests, "TestManyAgentsAreSeveralJobs"},
	{mutant{"driver", "a machine that does not go is announced, and one that goes is not", "driver/gcpbatch/adopt.go",
		"value == \"TRUE\"", "value == \"FALSE\""}, gcpTests, "TestAMachineThatIsPreemptedIsAnnounced"},
	{mutant{"driver", "what is cancelled in Google Batch goes on", "driver/gcpbatch/status.go",
		"case j.Status.State == batchapi.JobCancelled && t.State", "case false && t.State"}, gcpTests, "TestWhatGoogleSaysOfTasks"},
	{mutant{"driver", "spot capacity that does not come stays beside the machines in its place", "driver/gcpbatch/status.go",
		"if err := c.Delete(ctx, id); err != nil && !errors.Is(err, rest.ErrNotFound) {\n\t\t\treturn false", "if err := error(nil); err != nil {\n\t\t\treturn false"}, gcpTests, "TestOnDemandMachinesComeWhereSpotCapacityDoesNot"},
	{mutant{"driver", "machines in the place of spot capacity are claimed as those would be", "driver/gcpbatch/names.go",
		"return id, mostRetries + 1", "return id, 0"}, gcpTests, "TestNamesAreReadAsTheyWereMade"},
	{mutant{"driver", "a job that waits for too long waits on", "driver/gcpbatch/status.go",
		"case overdue(j, e.now()):", "case false:"}, gcpTests, "TestAJobWaitsForMachinesNoLongerThanItIsTo"},
	{mutant{"driver", "an agent is offered that the project may not have", "driver/gcpbatch/quota.go",
		"if q.Limit < each && m.name", "if q.Limit < 0 && m.name"}, gcpTests, "TestOffersKnowQuotas"},
	{mutant{"driver", "machines are asked for before their end is set", "driver/ec2/submit.go",
		"MaxSize: &zero, DesiredCapacity: &zero, CapacityRebalance", "MaxSize: &s.Request.Agents, DesiredCapacity: &s.Request.Agents, CapacityRebalance"}, ec2Tests, "TestAStartThatWasCutOffGoesOn"},
	{mutant{"driver", "a group that was never raised counts as started", "driver/ec2/stop.go",
		"if err != nil || g != nil && !g.Raised() {", "if err != nil {"}, ec2Tests, "TestAStartThatWasCutOffGoesOn"},
	{mutant{"driver", "a refused Start leaves its group", "driver/ec2/submit.go",
		"if err := c.RemoveGroup(ctx, name); err != nil {\n\t\t\treturn false", "if err := c.RemoveGroup(ctx, name+\"x\"); err != nil {\n\t\t\treturn false"}, ec2Tests, "TestARefusedStartLeavesNothing"},
	{mutant{"driver", "a machine that was told to go takes one off its group", "driver/ec2/host.go",
		"code != fault.ExitLater)", "code >= 0)"}, ec2Tests, "TestAnAgentThatWasToldToGoLeavesItsPlace"},
	{mutant{"driver", "a machine that has done its work is replaced", "driver/ec2/host.go",
		"code != fault.ExitLater)", "code < 0)"}, ec2Tests, "TestAnAgentThatWasToldToGoLeavesItsPlace"},
	{mutant{"driver", "each machine moves the end on", "driver/ec2/host.go",
		"if err != nil || !mine {", "if mine = true; err != nil || !mine {"}, ec2Tests, "TestTheEndIsMovedOn"},
	{mutant{"driver", "an attached command does not move the end on", "driver/ec2/attend.go",
		"move := now.Sub(l.moved) >= moveTime", "move := false"}, ec2Tests, "TestTheEndIsMovedOn"},
	{mutant{"driver", "a group that its end has emptied counts as stopped", "driver/ec2/status.go",
		"v.group.DesiredCapacity == 0 && !v.stopped()", "v.group.DesiredCapacity == 99"}, ec2Tests, "TestAMachineIsAsEC2Says"},
	{mutant{"driver", "a training job that was interrupted has the number of its first start", "driver/sagemaker/status.go",
		"Index: index, Attempt: before + 1}, Code: -1", "Index: index, Attempt: 1}, Code: -1"}, sagemakerTests, "TestEachStartOfAJobIsAProcess"},
	{mutant{"driver", "a quota that some workers use up fails the others", "driver/sagemaker/submit.go",
		"len(ids) > 0 && (kind == fault.Full", "len(ids) > 99 && (kind == fault.Full"}, sagemakerTests, "TestAQuotaHasSomeWorkersWait"},
	{mutant{"driver", "workers that a quota has refused are never asked for again", "driver/sagemaker/missing.go",
		"due := known && time.Since(w.asked) >= e.again", "due := false"}, sagemakerTests, "TestAQuotaHasSomeWorkersWait"},
	{mutant{"driver", "a worker that is asked for again stores its outputs where another one does", "driver/sagemaker/missing.go",
		`[]byte("/"+name+"/output")`, `[]byte("/"+like+"/output")`}, sagemakerTests, "TestAQuotaHasSomeWorkersWait"},
	{mutant{"driver", "a worker that was interrupted is as the list says", "driver/sagemaker/look.go",
		`	return claimed == 0`, `	return true`}, sagemakerTests, "TestAListSaysHowWorkersAre"},
	{mutant{"driver", "what drover decides is set from a file", "driver/sagemaker/merge.go",
		`if hint := decided[path]; hint != ""`, `if hint := decided[path]; hint == "x"`}, sagemakerTests, "TestMembersOfRequestsAreAdded"},
	{mutant{"driver", "machines are kept for another project's set-up", "driver/sagemaker/warm.go",
		`t.Key == "drover-project" && t.Value`, `t.Key == "drover-project" || t.Value`}, sagemakerTests, "TestOnlyAProjectsOwnMachinesAreLetGo"},
	{mutant{"driver", "the workers of a map are one training job", "driver/sagemaker/names.go",
		"if agents == 1 || n.Place.Nodes > 1 {", "if agents > 0 || n.Place.Nodes > 1 {"}, sagemakerTests, "TestWorkersAreTrainingJobsOfTheirOwn"},
	{mutant{"E7", "a saver looks for no other sweep once it has stored again", "internal/ledger/removal/sweep.go",
		"if err := again(ctx, gone); err != nil {", "if err := again(ctx, gone); err != nil || stored > 0 {"}, engineTests, "TestASaverWaitsForASweepThatBeganWhileItsListWasGone"},
	{mutant{"driver", "a signal counts as a machine that goes before orders were looked for", "driver/remote/supervise.go",
		"notice, late = &n, time.After(noticeWait)", "agent.Ask(n)"}, "driver/remote", "TestASignalOfAStopIsNoNotice"},
	{mutant{"driver", "a Job that somebody else deleted was never there", "driver/kube/view.go",
		"if !before.deleted && (", "if true || !before.deleted && ("}, kubeTests, "TestADeletedJobsAgentsHaveEnded"},
}

// TestTestedMutants plants them, those of one package into one build, and demands that
// their tests fail.
func TestTestedMutants(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles some packages' tests once more")
	}
	t.Parallel() // each waits for programs that it starts
	of := map[string][]testedMutant{}
	for i, m := range testedMutants {
		if !isShared(i) {
			continue
		}
		of[m.pkg] = append(of[m.pkg], m)
	}
	for pkg, planted := range of {
		t.Run(pkg, func(t *testing.T) {
			var c campaign
			for _, m := range planted {
				c.mutants = append(c.mutants, m.mutant)
			}
			bin := buildTests(t, "../../"+pkg, c.plant(t))
			for i, m := range planted {
				t.Run(fmt.Sprintf("%s %s", m.rule, m.what), func(t *testing.T) { m.fails(t, bin, i+1) })
			}
		})
	}
}

// fails demands that its test passes without the mutant, and fails with it. A test that
// waits for what never comes with it is given up after three times what it takes without.
func (m testedMutant) fails(t *testing.T, bin string, n int) {
	t.Helper()
	run := func(planted int, limit time.Duration) (out []byte, err error) {
		cmd := exec.Command(bin, "-test.run", "^"+m.test+"$", "-test.timeout", limit.String())
		cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%d", mutantVariable, planted))
		return cmd.CombinedOutput()
	}
	begin := time.Now()
	if out, err := run(0, 5*time.Minute); err != nil {
		t.Errorf("without the mutant: %s: %v\n%.2000s", m.test, err, out)
	}
	if out, err := run(n, 5*time.Second+3*time.Since(begin)); err == nil {
		t.Errorf("with mutant %d: %s passes\n%.2000s", n, m.test, out)
	}
}
