from partwise.report import cells, warnings


def test_warnings_tell_of_costs_and_of_runs_without_a_score(study, run):
    study += [run("norms_only", stopped_early=True, steps=40)]
    assert warnings(cells(study)) == [
        "needle: mixit has 10 % fewer parameters, 20 % fewer FLOPs than standard.",
        "frozen_mlp on needle: seed 0 diverged at step 7: loss 4e+06.",
        "mixit on needle: seed 3 diverged at step 7: loss 4e+06.",
        "norms_only on needle: seed 0 stopped early, solved, at step 40 of 100.",
    ]


def test_warnings_tell_where_a_promise_is_broken(run):
    def told(matching, **other):
        return warnings(cells([run("standard", matching=matching), run("mixit", matching=matching, **other)]))

    assert told("parameters", total=1005) == []
    assert told("parameters", total=1020) == [
        "needle: matched by parameters, yet mixit has 2 % more parameters than standard."
    ]
    assert told("flops", total=2000, flops=1.04e9) == []
    assert "matched by flops, yet mixit has 10 % fewer FLOPs" in told("flops", flops=0.9e9)[0]
    assert told("steps", train__steps=200) == [
        "needle: matched by steps, yet the steps differ: standard 100, mixit 200."
    ]
    assert "no equals" in warnings(cells([run("standard"), run("mixit", matching="flops")]))[0]
