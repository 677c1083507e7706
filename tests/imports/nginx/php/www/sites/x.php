<?php // sites/x.php
