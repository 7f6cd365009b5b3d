"""What every part must hold to, whoever wrote it. The tests call these for each name in the catalogue; so may you.

    check_token_mixer(MyMixer(n_heads=2))       raises AssertionError, in one sentence, or says nothing

Each law is a function of a config, its name a sentence, and `TOKEN_MIXER_LAWS` and its like list them. Mixers are
checked in float64, every parameter moved off its start, so that a bias of zero hides nothing.
"""

from partwise.contracts.channel_mixers import (
    CHANNEL_MIXER_LAWS,
    a_saved_channel_mixer_gives_the_same_output,
    check_channel_mixer,
    each_position_is_on_its_own,
    gradients_reach_the_channel_mixer,
    permuting_positions_permutes_the_output,
    swapping_the_channel_mixer_leaves_the_other_parts,
    the_channel_mixer_keeps_nothing,
    the_same_seed_gives_the_same_channel_mixer,
)
from partwise.contracts.common import it_survives_plain_data
from partwise.contracts.joins import (
    JOIN_LAWS,
    a_join_meets_each_position_on_its_own,
    a_model_can_be_made_with_the_join,
    a_saved_join_gives_the_same_output,
    both_sides_go_through_a_join,
    built_join,
    check_join,
    the_same_seed_gives_the_same_join,
    the_stream_is_as_wide_as_out_width_says,
)
from partwise.contracts.probes import (
    PROBE_LAWS,
    a_probe_only_looks,
    a_probe_yields_rows,
    check_probe,
    other_probes_do_not_change_its_values,
    padding_does_not_change_its_values,
    probed,
)
from partwise.contracts.tasks import (
    TASK_LAWS,
    a_batch_is_what_the_shape_says,
    a_model_can_be_trained_and_scored_on_it,
    check_task,
    floor_losses_are_those_of_distributions,
    floors_are_predictions,
    many_batches_at_once_are_the_same,
    no_input_holds_its_own_answer,
    the_referee_agrees_with_the_targets,
    the_same_seed_gives_the_same_data,
    the_splits_share_no_example,
)
from partwise.contracts.token_mixers import (
    TOKEN_MIXER_LAWS,
    a_listening_tap_changes_nothing,
    check_token_mixer,
    gradients_reach_its_parameters,
    nothing_is_kept_between_calls,
    output_has_the_shape_of_the_input,
    padding_does_not_matter,
    reading_a_few_rows_equals_reading_all,
    reading_on_equals_reading_at_once,
    save_and_load_give_the_same_output,
    swapping_it_in_leaves_the_other_parts,
    the_future_does_not_reach_the_past,
    the_mix_tap_is_the_mixing,
    the_same_seed_gives_the_same_weights,
)

_join, _probed = built_join, probed  # the names that the tests call them by

__all__ = [
    "CHANNEL_MIXER_LAWS",
    "JOIN_LAWS",
    "PROBE_LAWS",
    "TASK_LAWS",
    "TOKEN_MIXER_LAWS",
    "a_batch_is_what_the_shape_says",
    "a_join_meets_each_position_on_its_own",
    "a_listening_tap_changes_nothing",
    "a_model_can_be_made_with_the_join",
    "a_model_can_be_trained_and_scored_on_it",
    "a_probe_only_looks",
    "a_probe_yields_rows",
    "a_saved_channel_mixer_gives_the_same_output",
    "a_saved_join_gives_the_same_output",
    "both_sides_go_through_a_join",
    "check_channel_mixer",
    "check_join",
    "check_probe",
    "check_task",
    "check_token_mixer",
    "each_position_is_on_its_own",
    "floor_losses_are_those_of_distributions",
    "floors_are_predictions",
    "gradients_reach_its_parameters",
    "gradients_reach_the_channel_mixer",
    "it_survives_plain_data",
    "many_batches_at_once_are_the_same",
    "no_input_holds_its_own_answer",
    "nothing_is_kept_between_calls",
    "other_probes_do_not_change_its_values",
    "output_has_the_shape_of_the_input",
    "padding_does_not_change_its_values",
    "padding_does_not_matter",
    "permuting_positions_permutes_the_output",
    "reading_a_few_rows_equals_reading_all",
    "reading_on_equals_reading_at_once",
    "save_and_load_give_the_same_output",
    "swapping_it_in_leaves_the_other_parts",
    "swapping_the_channel_mixer_leaves_the_other_parts",
    "the_channel_mixer_keeps_nothing",
    "the_future_does_not_reach_the_past",
    "the_mix_tap_is_the_mixing",
    "the_referee_agrees_with_the_targets",
    "the_same_seed_gives_the_same_channel_mixer",
    "the_same_seed_gives_the_same_data",
    "the_same_seed_gives_the_same_join",
    "the_same_seed_gives_the_same_weights",
    "the_splits_share_no_example",
    "the_stream_is_as_wide_as_out_width_says",
]
